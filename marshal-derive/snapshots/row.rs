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
        *self
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for GemmPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for GemmPointers {
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "GemmPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[&self.m, &self.a],
        )
    }
}
#[automatically_derived]
impl ::marshal::KernelStruct for GemmPointers {
    const NAME: &'static str = "GemmPointers";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named(
        [
            ::marshal::__private::aligned(<[i32] as ::marshal::Column>::MEMBER, 32u64),
            ::marshal::__private::aligned(
                <[DevicePointer<f32>] as ::marshal::Column>::MEMBER,
                32u64,
            ),
        ],
        ["m", "a"],
    );
}
#[automatically_derived]
impl ::marshal::Row for Gemm {
    type Pointers = GemmPointers;
    fn fields<__V: ::marshal::RowVisitor<Self>>(
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<GemmPointers, ::marshal::Error> {
        let _: fn(&Self) = |Self { m: _, a: _, host: _ }| {};
        ::marshal::__private::Ok(GemmPointers {
            m: ::marshal::RowVisitor::field::<
                i32,
            >(
                __visitor,
                ::marshal::__private::spec::<GemmPointers>(0usize),
                |__row: &Self| __row.m,
            )?,
            a: ::marshal::RowVisitor::field::<
                DevicePointer<f32>,
            >(
                __visitor,
                ::marshal::__private::spec::<GemmPointers>(1usize),
                |__row: &Self| __row.a,
            )?,
        })
    }
}
const _: () = {
    use ::marshal::__private::Otherwise as _;
    ::marshal::__private::is_element(
        <::marshal::__private::Probe<[DevicePointer<f32>]>>::MEMBER,
        <::marshal::__private::Probe<[DevicePointer<f32>]>>::IS_HOST_WORD,
    );
    let _ = ::marshal::__private::is_aligned(
        <::marshal::__private::Probe<[DevicePointer<f32>]>>::MEMBER,
        8u64,
        "column `a`: `align = 8` is below the element's own alignment: ask for that or more, or remove `align`",
    );
};
