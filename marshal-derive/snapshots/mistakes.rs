::core::compile_error! {
    "unknown attribute `scaler`: a field takes `scalar`, `nested`, `borrow`, `skip`, `align = 64` or `c_type = \"CType\"`"
}
::core::compile_error! {
    "24 is no alignment, which is a power of two: the nearest are 16 and 32"
}
/// The device pointers of [`Mistakes`]: one a column, in declared order.
#[repr(C)]
struct MistakesPointers {
    /// The column `x`.
    x: ::marshal::__private::Malformed,
    /// The column `y`.
    y: <Vec<u32> as ::marshal::Column>::Pointers,
}
#[automatically_derived]
impl ::marshal::__private::Clone for MistakesPointers {
    #[inline]
    fn clone(&self) -> Self {
        MistakesPointers {
            x: self.x,
            y: self.y,
        }
    }
}
#[automatically_derived]
impl ::marshal::__private::Copy for MistakesPointers {}
#[automatically_derived]
impl ::marshal::__private::Debug for MistakesPointers {
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "MistakesPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[&self.x, &self.y],
        )
    }
}
#[automatically_derived]
impl ::marshal::KernelStruct for MistakesPointers {
    const NAME: &'static str = "MistakesPointers";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named(
        [
            <::marshal::__private::Malformed as ::marshal::Column>::MEMBER,
            <Vec<u32> as ::marshal::Column>::MEMBER,
        ],
        ["x", "y"],
    );
}
#[automatically_derived]
impl ::marshal::DeviceArgs for Mistakes {
    type Pointers = MistakesPointers;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<MistakesPointers, ::marshal::Error> {
        let Self { x: _, y: _ } = self;
        match ::marshal::__private::columns2(
            __visitor,
            <MistakesPointers as ::marshal::KernelStruct>::MEMBERS,
            0usize,
            &::marshal::__private::Malformed,
            &self.y,
        ) {
            ::marshal::__private::Ok(__columns0) => {
                ::marshal::__private::Ok(MistakesPointers {
                    x: __columns0.0,
                    y: __columns0.1,
                })
            }
            ::marshal::__private::Err(__error) => ::marshal::__private::Err(__error),
        }
    }
}
