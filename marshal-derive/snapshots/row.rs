/// The device pointers of [`Gemm`]: one a column, in declared order.
#[repr(C)]
struct GemmPointers {
    /// The column `m`.
    m: ::marshal::DeviceColumn<i32>,
    /// The column `a`.
    a: ::marshal::DeviceColumn<DevicePointer<f32>>,
}
#[automatically_derived]
impl ::marshal::__private::Clone for GemmPointers {
    #[inline]
    fn clone(&self) -> Self {
        GemmPointers {
            m: self.m,
            a: self.a,
        }
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for GemmPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for GemmPointers {
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        let mut __debug = ::marshal::__private::Formatter::debug_struct(
            __formatter,
            "GemmPointers",
        );
        ::marshal::__private::DebugStruct::field(&mut __debug, "m", &self.m);
        ::marshal::__private::DebugStruct::field(&mut __debug, "a", &self.a);
        ::marshal::__private::DebugStruct::finish(&mut __debug)
    }
}
#[automatically_derived]
impl ::marshal::Row for Gemm {
    type Pointers = GemmPointers;
    fn fields<__V: ::marshal::RowVisitor<Self>>(
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<Self::Pointers, ::marshal::Error> {
        let _: fn(&Self) = |Self { m: _, a: _, host: _ }| {};
        ::marshal::__private::Ok(GemmPointers {
            m: ::marshal::RowVisitor::field::<
                i32,
            >(
                __visitor,
                const {
                    ::marshal::ColumnSpec::with_alignment(
                        ::marshal::ColumnSpec::new("m"),
                        ::marshal::__private::alignment(32u64),
                    )
                },
                |__row: &Self| __row.m,
            )?,
            a: ::marshal::RowVisitor::field::<
                DevicePointer<f32>,
            >(
                __visitor,
                const {
                    ::marshal::ColumnSpec::with_alignment(
                        ::marshal::ColumnSpec::new("a"),
                        ::marshal::__private::alignment(32u64),
                    )
                },
                |__row: &Self| __row.a,
            )?,
        })
    }
}
const _: () = {
    use ::marshal::__private::NoColumn as _;
    ::marshal::__private::has_bytes(::marshal::__private::Layout::new::<i32>());
};
const _: () = {
    use ::marshal::__private::NoColumn as _;
    ::marshal::__private::is_aligned(
        ::marshal::__private::Layout::new::<DevicePointer<f32>>(),
        8u64,
        "column `a`: `align = 8` is below the element's own alignment: ask for that or more, or remove `align`",
    );
};
