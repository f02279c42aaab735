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
    fn fmt(
        &self,
        __formatter: &mut ::marshal::__private::Formatter<'_>,
    ) -> ::marshal::__private::FmtResult {
        let mut __debug = ::marshal::__private::Formatter::debug_struct(
            __formatter,
            "GenericPointers",
        );
        ::marshal::__private::DebugStruct::field(&mut __debug, "x", &self.x);
        ::marshal::__private::DebugStruct::field(&mut __debug, "c", &self.c);
        ::marshal::__private::DebugStruct::field(&mut __debug, "words", &self.words);
        ::marshal::__private::DebugStruct::field(&mut __debug, "itself", &self.itself);
        ::marshal::__private::DebugStruct::finish(&mut __debug)
    }
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
    ) -> ::marshal::__private::Result<Self::Pointers, ::marshal::Error> {
        use ::marshal::__private::NoColumn as _;
        const {
            ::marshal::__private::is_aligned(
                <::marshal::__private::Probe<Vec<[T; N]>>>::ELEMENT,
                8u64,
                "column `x`: `align = 8` is below the element's own alignment: ask for that or more, or remove `align`",
            );
        }
        let Self {
            x: __column_x,
            c: __column_c,
            words: __column_words,
            itself: __column_itself,
            u: _,
        } = self;
        ::marshal::__private::Ok(GenericPointers {
            x: <Vec<
                [T; N],
            > as ::marshal::Column>::visit(
                __column_x,
                const {
                    ::marshal::ColumnSpec::with_alignment(
                        ::marshal::ColumnSpec::new("x"),
                        ::marshal::Alignment::max(
                            ::marshal::Alignment::VECTOR_LOAD,
                            ::marshal::__private::alignment(8u64),
                        ),
                    )
                },
                __visitor,
            )?,
            c: <C as ::marshal::Column>::visit(
                __column_c,
                ::marshal::ColumnSpec::new("c"),
                __visitor,
            )?,
            words: <::marshal::__private::Probe<
                Cow<'a, [<T as Proto>::Word]>,
            >>::visit(__column_words, ::marshal::ColumnSpec::new("words"), __visitor)?,
            itself: <::marshal::__private::Probe<
                [u8; <Self as Width>::WORDS],
            >>::visit(__column_itself, ::marshal::ColumnSpec::new("itself"), __visitor)?,
        })
    }
}
