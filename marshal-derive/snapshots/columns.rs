/// The device pointers of [`GroupedGemm`]: one a column, in declared order.
#[repr(C)]
pub struct GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{
    /// m, n and k of each product.
    pub problem_sizes: <[GemmCoord] as ::marshal::Column>::Pointers,
    /// The column `type`.
    pub(crate) r#type: <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `alpha`.
    alpha: ::marshal::DeviceColumn<f32>,
    /// The column `names`.
    names: <Cow<'static, [u32]> as ::marshal::Column>::Pointers,
}
#[automatically_derived]
impl ::marshal::__private::Clone for GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{
    #[inline]
    fn clone(&self) -> Self {
        GroupedGemmPointers {
            problem_sizes: self.problem_sizes,
            r#type: self.r#type,
            alpha: self.alpha,
            names: self.names,
        }
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{}
#[automatically_derived]
impl ::marshal::__private::Debug for GroupedGemmPointers
where
    Cow<'static, [u32]>: ::marshal::Column,
{
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        let mut __debug = ::marshal::__private::Formatter::debug_struct(
            __formatter,
            "GroupedGemmPointers",
        );
        ::marshal::__private::DebugStruct::field(
            &mut __debug,
            "problem_sizes",
            &self.problem_sizes,
        );
        ::marshal::__private::DebugStruct::field(&mut __debug, "type", &self.r#type);
        ::marshal::__private::DebugStruct::field(&mut __debug, "alpha", &self.alpha);
        ::marshal::__private::DebugStruct::field(&mut __debug, "names", &self.names);
        ::marshal::__private::DebugStruct::finish(&mut __debug)
    }
}
#[automatically_derived]
impl<'a> ::marshal::DeviceArgs for GroupedGemm<'a>
where
    Cow<'static, [u32]>: ::marshal::Column,
{
    type Pointers = GroupedGemmPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<Self::Pointers, ::marshal::Error> {
        use ::marshal::__private::NoColumn as _;
        let Self {
            problem_sizes: __column_problem_sizes,
            r#type: __column_type,
            alpha: __column_alpha,
            label: _,
            seen: _,
            names: __column_names,
        } = self;
        ::marshal::__private::Ok(GroupedGemmPointers {
            problem_sizes: <[GemmCoord] as ::marshal::Column>::visit(
                __column_problem_sizes,
                ::marshal::ColumnSpec::new("problem_sizes"),
                __visitor,
            )?,
            r#type: <Vec<
                u8,
            > as ::marshal::Column>::visit(
                __column_type,
                const {
                    ::marshal::ColumnSpec::with_alignment(
                        ::marshal::ColumnSpec::new("type"),
                        ::marshal::Alignment::max(
                            ::marshal::Alignment::VECTOR_LOAD,
                            ::marshal::__private::alignment(64u64),
                        ),
                    )
                },
                __visitor,
            )?,
            alpha: ::marshal::Visitor::column::<
                f32,
            >(
                __visitor,
                ::marshal::ColumnSpec::new("alpha"),
                ::marshal::__private::from_ref(__column_alpha),
            )?,
            names: <::marshal::__private::Probe<
                Cow<'a, [u32]>,
            >>::visit(__column_names, ::marshal::ColumnSpec::new("names"), __visitor)?,
        })
    }
}
const _: () = {
    use ::marshal::__private::NoColumn as _;
    ::marshal::__private::has_bytes(<::marshal::__private::Probe<[GemmCoord]>>::ELEMENT);
};
const _: () = {
    use ::marshal::__private::NoColumn as _;
    ::marshal::__private::is_aligned(
        <::marshal::__private::Probe<Vec<u8>>>::ELEMENT,
        64u64,
        "column `type`: `align = 64` is below the element's own alignment: ask for that or more, or remove `align`",
    );
};
const _: () = {
    use ::marshal::__private::NoColumn as _;
    ::marshal::__private::has_bytes(::marshal::__private::Layout::new::<f32>());
};
const _: () = {
    use ::marshal::__private::NoColumn as _;
    ::marshal::__private::has_bytes(
        <::marshal::__private::Probe<Cow<'static, [u32]>>>::ELEMENT,
    );
};
