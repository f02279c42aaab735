::core::compile_error! {
    "`Either` is an enum: `DeviceArgs` is derived for structs, whose fields become columns"
}
/// The device pointers of [`Either`]: one a column, in declared order.
#[repr(C)]
struct EitherPointers {}
#[automatically_derived]
impl ::marshal::__private::Clone for EitherPointers {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for EitherPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for EitherPointers {
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "EitherPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[],
        )
    }
}
#[automatically_derived]
impl ::marshal::KernelStruct for EitherPointers {
    const NAME: &'static str = "EitherPointers";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named([], []);
}
#[automatically_derived]
impl ::marshal::DeviceArgs for Either {
    type Pointers = EitherPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<EitherPointers, ::marshal::Error> {
        ::marshal::__private::malformed()
    }
}
