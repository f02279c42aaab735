/// The device pointers of [`Nothing`]: one a column, in declared order.
#[repr(C)]
pub struct NothingPointers;
#[automatically_derived]
impl ::marshal::__private::Clone for NothingPointers {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for NothingPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for NothingPointers {
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "NothingPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[],
        )
    }
}
#[automatically_derived]
impl ::marshal::KernelStruct for NothingPointers {
    const NAME: &'static str = "NothingPointers";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named([], []);
}
#[automatically_derived]
impl ::marshal::DeviceArgs for Nothing {
    type Pointers = NothingPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<NothingPointers, ::marshal::Error> {
        let Self {} = self;
        ::marshal::__private::Ok(NothingPointers {})
    }
}
