//! The words of `#[device(..)]`, each written once.

/// The attribute itself.
pub(crate) const DEVICE: &str = "device";

pub(crate) const ALIGN: &str = "align";
pub(crate) const BORROW: &str = "borrow";
pub(crate) const CRATE: &str = "crate";
pub(crate) const C_TYPE: &str = "c_type";
pub(crate) const NAME: &str = "name";
pub(crate) const NESTED: &str = "nested";
pub(crate) const ROW: &str = "row";
pub(crate) const SCALAR: &str = "scalar";
pub(crate) const SKIP: &str = "skip";

/// A word and the form that it is written in.
pub(crate) struct Word {
    pub(crate) name: &'static str,
    pub(crate) form: &'static str,
}

/// What stands on the struct.
pub(crate) const ON_STRUCT: &[Word] = &[
    Word { name: ROW, form: "row" },
    Word { name: ALIGN, form: "align = 64" },
    Word { name: NAME, form: "name = \"CName\"" },
    Word { name: CRATE, form: "crate = path::to::marshal" },
];

/// What stands on a field.
pub(crate) const ON_FIELD: &[Word] = &[
    Word { name: SCALAR, form: "scalar" },
    Word { name: NESTED, form: "nested" },
    Word { name: BORROW, form: "borrow" },
    Word { name: SKIP, form: "skip" },
    Word { name: ALIGN, form: "align = 64" },
    Word { name: C_TYPE, form: "c_type = \"CType\"" },
];
