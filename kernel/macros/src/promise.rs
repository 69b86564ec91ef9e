//! What becomes of a kernel whose author promises, by `unsafe`, that its work-items keep apart; and what the attribute
//! promises by itself.

use proc_macro2::TokenStream;
use quote::quote;

/// What stands in front of the function that makes a call of such a kernel: what its caller answers for, and the keyword.
pub(crate) fn of_caller() -> (TokenStream, TokenStream) {
    let about = quote! {
        ///
        /// # Safety
        /// In a launch no element that one work-item writes is read or written by another, unless both are of one
        /// work-group and a barrier stands between. What is passed for a `&mut` parameter overlaps no other argument.
    };
    (about, quote!(unsafe))
}

/// A slot of such a kernel as plain memory.
pub(crate) fn alone(ty: &TokenStream, dims: usize, slot: usize) -> TokenStream {
    quote! {
        // SAFETY: who launched the kernel answers for that no two work-items meet at an element that one of them writes,
        // and that what is written overlaps no other argument.
        unsafe { launch.alone::<#ty, #dims>(#slot) }
    }
}

/// A slot as plain memory where a test of the launch says that no two work-items, or no two groups, meet in it.
pub(crate) fn spread_out(test: &TokenStream, ty: &TokenStream, dims: usize, slot: usize) -> TokenStream {
    quote! {
        match #test {
            // SAFETY: the attribute has found all of the kernel's accesses to this slot, and these are where it has told the test
            // that they are. So no two work-items meet there, or none of different groups, which are never in two blocks; and
            // nothing else overlaps it.
            true => unsafe { launch.alone::<#ty, #dims>(#slot) },
            false => None,
        }
    }
}

/// The kernel, of what the attribute knows about it.
pub(crate) fn kernel(rt: &TokenStream) -> TokenStream {
    quote! {
        // SAFETY: the attribute wrote the text: every access stands behind a comparison of its index, and it saw all loops.
        unsafe { #rt::kernel(parts) }
    }
}
