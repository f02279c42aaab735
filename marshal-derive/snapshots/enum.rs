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
        EitherPointers {}
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for EitherPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for EitherPointers {
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        let mut __debug = ::marshal::__private::Formatter::debug_struct(
            __formatter,
            "EitherPointers",
        );
        ::marshal::__private::DebugStruct::finish(&mut __debug)
    }
}
#[automatically_derived]
impl ::marshal::DeviceArgs for Either {
    type Pointers = EitherPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<Self::Pointers, ::marshal::Error> {
        ::marshal::__private::malformed()
    }
}
