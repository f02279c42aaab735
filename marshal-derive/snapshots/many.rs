/// The device pointers of [`Many`]: one a column, in declared order.
#[repr(C)]
struct ManyPointers(
    /// The column `0`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `1`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `2`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `3`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `4`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `5`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `6`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `7`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `8`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `9`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `10`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `11`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `12`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `13`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `14`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `15`.
    <Vec<u8> as ::marshal::Column>::Pointers,
    /// The column `16`.
    <Vec<u16> as ::marshal::Column>::Pointers,
);
#[automatically_derived]
impl ::marshal::__private::Clone for ManyPointers {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for ManyPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for ManyPointers {
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "ManyPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[
                &self.0,
                &self.1,
                &self.2,
                &self.3,
                &self.4,
                &self.5,
                &self.6,
                &self.7,
                &self.8,
                &self.9,
                &self.10,
                &self.11,
                &self.12,
                &self.13,
                &self.14,
                &self.15,
                &self.16,
            ],
        )
    }
}
#[automatically_derived]
impl ::marshal::KernelStruct for ManyPointers {
    const NAME: &'static str = "ManyPointers";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named(
        [
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u8> as ::marshal::Column>::MEMBER,
            <Vec<u16> as ::marshal::Column>::MEMBER,
        ],
        [
            "0",
            "1",
            "2",
            "3",
            "4",
            "5",
            "6",
            "7",
            "8",
            "9",
            "10",
            "11",
            "12",
            "13",
            "14",
            "15",
            "16",
        ],
    );
}
#[automatically_derived]
impl ::marshal::DeviceArgs for Many {
    type Pointers = ManyPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<ManyPointers, ::marshal::Error> {
        let Self {
            0: _,
            1: _,
            2: _,
            3: _,
            4: _,
            5: _,
            6: _,
            7: _,
            8: _,
            9: _,
            10: _,
            11: _,
            12: _,
            13: _,
            14: _,
            15: _,
            16: _,
        } = self;
        match ::marshal::__private::columns16(
            __visitor,
            <ManyPointers as ::marshal::KernelStruct>::MEMBERS,
            0usize,
            &self.0,
            &self.1,
            &self.2,
            &self.3,
            &self.4,
            &self.5,
            &self.6,
            &self.7,
            &self.8,
            &self.9,
            &self.10,
            &self.11,
            &self.12,
            &self.13,
            &self.14,
            &self.15,
        ) {
            ::marshal::__private::Ok(__columns0) => {
                match ::marshal::__private::columns1(
                    __visitor,
                    <ManyPointers as ::marshal::KernelStruct>::MEMBERS,
                    16usize,
                    &self.16,
                ) {
                    ::marshal::__private::Ok(__columns1) => {
                        ::marshal::__private::Ok(ManyPointers {
                            0: __columns0.0,
                            1: __columns0.1,
                            2: __columns0.2,
                            3: __columns0.3,
                            4: __columns0.4,
                            5: __columns0.5,
                            6: __columns0.6,
                            7: __columns0.7,
                            8: __columns0.8,
                            9: __columns0.9,
                            10: __columns0.10,
                            11: __columns0.11,
                            12: __columns0.12,
                            13: __columns0.13,
                            14: __columns0.14,
                            15: __columns0.15,
                            16: __columns1.0,
                        })
                    }
                    ::marshal::__private::Err(__error) => {
                        ::marshal::__private::Err(__error)
                    }
                }
            }
            ::marshal::__private::Err(__error) => ::marshal::__private::Err(__error),
        }
    }
}
