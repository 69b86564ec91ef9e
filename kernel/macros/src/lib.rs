//! `#[kernel]` and `#[kernels]`: a subset of Rust, checked, and turned into native code and WGSL.
//!
//! The way of a kernel: `modules` fetches what the module uses of others, `items`, `structs` and `functions` read what stands around
//! the bodies, `check` resolves names and types and refuses what is no part of the language, and makes of each generic helper
//! what it is called with. `tuples` and `inline` take away what devices do not have, `uses` finds out what each parameter needs, `wgsl` writes the device's
//! text, which naga validates here and now, `host` writes native code, and `launch` the function that users call.
//!
//! The crate `windlass` gives these out; see there for examples.

mod apart;
mod builtin;
mod check;
mod conditional;
mod device_copy;
mod dump;
mod enums;
mod errors;
mod evaluate;
mod expand;
mod fills;
mod flow;
mod fold;
mod functions;
mod generic;
mod hir;
mod host;
mod inline;
mod items;
mod launch;
mod lengths;
mod library;
mod limits;
mod messages;
mod modules;
mod options;
mod order;
mod origin;
mod outside;
mod pieces;
mod pointers;
mod promise;
mod shown;
mod structs;
mod tuples;
mod ty;
mod types;
mod uniform;
mod uses;
mod wgsl;

use proc_macro::TokenStream;

/// Turns a function into a kernel: a function of the same name that makes a call of it, to be launched.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    finish(expand::kernel(arguments.into(), item.into()))
}

/// Turns a module's `#[kernel]` functions into kernels, which may use its structs, constants and other functions.
#[proc_macro_attribute]
pub fn kernels(arguments: TokenStream, item: TokenStream) -> TokenStream {
    finish(expand::kernels(arguments.into(), item.into()))
}

/// What a module of kernels that others use hands on; not for programs.
#[doc(hidden)]
#[proc_macro]
pub fn kernels_with(input: TokenStream) -> TokenStream {
    finish(modules::continued(input.into()))
}

/// Lets a struct live in device memory, having proved that it has no padding.
#[proc_macro_derive(DeviceCopy, attributes(windlass))]
pub fn device_copy(item: TokenStream) -> TokenStream {
    finish(device_copy::derive(item.into()))
}

fn finish(made: Result<proc_macro2::TokenStream, syn::Error>) -> TokenStream {
    made.unwrap_or_else(|error| error.into_compile_error()).into()
}
