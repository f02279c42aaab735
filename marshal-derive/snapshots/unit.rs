/// The device pointers of [`Nothing`]: one a column, in declared order.
#[repr(C)]
pub struct NothingPointers;
#[automatically_derived]
impl ::marshal::__private::Clone for NothingPointers {
    #[inline]
    fn clone(&self) -> Self {
        NothingPointers {}
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for NothingPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for NothingPointers {
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        let mut __debug = ::marshal::__private::Formatter::debug_struct(
            __formatter,
            "NothingPointers",
        );
        ::marshal::__private::DebugStruct::finish(&mut __debug)
    }
}
#[automatically_derived]
impl ::marshal::DeviceArgs for Nothing {
    type Pointers = NothingPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<Self::Pointers, ::marshal::Error> {
        let Self {} = self;
        ::marshal::__private::Ok(NothingPointers {})
    }
}
