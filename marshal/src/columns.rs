//! Walks over so many columns of a set at once: one call in the expansion, where a call a column would cost a derived struct most of
//! its compile time.

use crate::column::Column;
use crate::error::Error;
use crate::kernel_struct::Member;
use crate::walk::Visitor;

/// The pointers of some columns, or what went wrong.
type Walked<P> = Result<P, Error>;

/// So many of `members`, from the one with the index `first` on.
#[inline]
fn some<const N: usize>(members: &[Member], first: usize) -> &[Member; N] {
    let members = members.get(first..).and_then(<[Member]>::first_chunk);
    members.expect("the derive counts the members of the struct that it writes")
}

macro_rules! columns {
    ($($name:ident: $($column:ident $value:ident $member:ident),*;)*) => {$(
        /// Shows these columns to `visitor`: those of `members` from the one with the index `first` on.
        ///
        /// # Errors
        /// What the visitor says.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "one a column")]
        pub fn $name<V: Visitor, $($column: Column + ?Sized),*>(
            visitor: &mut V,
            members: &'static [Member],
            first: usize,
            $($value: &$column),*
        ) -> Walked<($($column::Pointers,)*)> {
            let [$($member),*] = some(members, first);
            Ok(($($value.visit($member.spec(), visitor)?,)*))
        }
    )*};
}

columns! {
    columns1: A a a_member;
    columns2: A a a_member, B b b_member;
    columns3: A a a_member, B b b_member, C c c_member;
    columns4: A a a_member, B b b_member, C c c_member, D d d_member;
    columns5: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member;
    columns6: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member;
    columns7: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member;
    columns8: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member;
    columns9: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member;
    columns10: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member, J j j_member;
    columns11: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member, J j j_member, K k k_member;
    columns12: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member, J j j_member, K k k_member, L l l_member;
    columns13: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member, J j j_member, K k k_member, L l l_member, M m m_member;
    columns14: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member, J j j_member, K k k_member, L l l_member, M m m_member, N n n_member;
    columns15: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member, J j j_member, K k k_member, L l l_member, M m m_member, N n n_member, O o o_member;
    columns16: A a a_member, B b b_member, C c c_member, D d d_member, E e e_member, F f f_member, G g g_member, H h h_member, I i i_member, J j j_member, K k k_member, L l l_member, M m m_member, N n n_member, O o o_member, Q q q_member;
}
