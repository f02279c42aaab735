/// The device pointers of [`Generic`]: one a column, in declared order.
#[repr(C)]
struct GenericPointers<T: Pod, U, C: Column, const N: usize = 4>
where
    T: Into<f64>,
    U: Default,
    <T as Proto>::Word: Pod,
    T: 'static,
    U: 'static,
    C: 'static,
{
    /// The column `x`.
    x: <Vec<[T; N]> as ::marshal::Column>::Pointers,
    /// The column `c`.
    c: <C as ::marshal::Column>::Pointers,
    /// The column `words`.
    words: <Cow<'static, [<T as Proto>::Word]> as ::marshal::Column>::Pointers,
    /// The column `itself`.
    itself: <[u8; <Generic<
        'static,
        T,
        U,
        C,
        N,
    > as Width>::WORDS] as ::marshal::Column>::Pointers,
}
#[automatically_derived]
impl<T: Pod, U, C: Column, const N: usize> ::marshal::__private::Clone
for GenericPointers<T, U, C, N>
where
    T: Into<f64>,
    U: Default,
    <T as Proto>::Word: Pod,
    T: 'static,
    U: 'static,
    C: 'static,
{
    #[inline]
    fn clone(&self) -> Self {
        GenericPointers {
            x: self.x,
            c: self.c,
            words: self.words,
            itself: self.itself,
        }
    }
}
#[automatically_derived]
impl<T: Pod, U, C: Column, const N: usize> ::marshal::__private::Copy
for GenericPointers<T, U, C, N>
where
    T: Into<f64>,
    U: Default,
    <T as Proto>::Word: Pod,
    T: 'static,
    U: 'static,
    C: 'static,
{}
#[automatically_derived]
impl<T: Pod, U, C: Column, const N: usize> ::marshal::__private::Debug
for GenericPointers<T, U, C, N>
where
    T: Into<f64>,
    U: Default,
    <T as Proto>::Word: Pod,
    T: 'static,
    U: 'static,
    C: 'static,
{
    #[inline]
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        ::marshal::__private::debug(
            __formatter,
            "GenericPointers",
            <Self as ::marshal::KernelStruct>::MEMBERS,
            &[&self.x, &self.c, &self.words, &self.itself],
        )
    }
}
#[automatically_derived]
impl<T: Pod, U, C: Column, const N: usize> ::marshal::KernelStruct
for GenericPointers<T, U, C, N>
where
    T: Into<f64>,
    U: Default,
    <T as Proto>::Word: Pod,
    T: 'static,
    U: 'static,
    C: 'static,
{
    const NAME: &'static str = "GenericPointers";
    const MEMBERS: &'static [::marshal::Member] = &::marshal::__private::named(
        [
            ::marshal::__private::aligned(
                ::marshal::__private::is_aligned(
                    ::marshal::__private::has_bytes(
                        <Vec<[T; N]> as ::marshal::Column>::MEMBER,
                    ),
                    8u64,
                    "column `x`: `align = 8` is below the element's own alignment: ask for that or more, or remove `align`",
                ),
                16u64,
            ),
            ::marshal::__private::has_bytes(<C as ::marshal::Column>::MEMBER),
            ::marshal::__private::has_bytes(
                <Cow<'static, [<T as Proto>::Word]> as ::marshal::Column>::MEMBER,
            ),
            ::marshal::__private::has_bytes(
                <[u8; <Generic<
                    'static,
                    T,
                    U,
                    C,
                    N,
                > as Width>::WORDS] as ::marshal::Column>::MEMBER,
            ),
        ],
        ["x", "c", "words", "itself"],
    );
}
#[automatically_derived]
impl<'a, T: Pod + PartialEq<&'a str>, U, C: Column, const N: usize> ::marshal::DeviceArgs
for Generic<'a, T, U, C, N>
where
    T: Into<f64> + 'a,
    U: Default,
    <T as Proto>::Word: Pod,
    T: 'static,
    U: 'static,
    C: 'static,
{
    type Pointers = GenericPointers<T, U, C, N>;
    #[inline]
    fn walk<__V: ::marshal::Visitor>(
        &self,
        __visitor: &mut __V,
    ) -> ::marshal::__private::Result<GenericPointers<T, U, C, N>, ::marshal::Error> {
        use ::marshal::__private::Otherwise as _;
        let Self { x: _, c: _, words: _, itself: _, u: _ } = self;
        match ::marshal::__private::columns4(
            __visitor,
            <GenericPointers<T, U, C, N> as ::marshal::KernelStruct>::MEMBERS,
            0usize,
            <::marshal::__private::Probe<Vec<[T; N]>>>::column(&self.x),
            <::marshal::__private::Probe<C>>::column(&self.c),
            <::marshal::__private::Probe<
                Cow<'a, [<T as Proto>::Word]>,
            >>::column(&self.words),
            &self.itself,
        ) {
            ::marshal::__private::Ok(__columns0) => {
                ::marshal::__private::Ok(GenericPointers {
                    x: __columns0.0,
                    c: __columns0.1,
                    words: __columns0.2,
                    itself: __columns0.3,
                })
            }
            ::marshal::__private::Err(__error) => ::marshal::__private::Err(__error),
        }
    }
}
