//! What users see of a kernel: a function with its name, whose arguments are typed and whose value is a call.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::apart::Apart;
use crate::generic::Actual;
use crate::hir::{Function, May, Module, Reduction, Slice, Space, Struct, VarId, VarKind};
use crate::host::{Spread, native, type_tokens};
use crate::items::{Param, Signature};
use crate::messages;
use crate::order::Order;
use crate::pointers::{PARTS, is_reached};
use crate::ty::{Scalar, Ty};
use crate::uniform::Differing;
use crate::uses::{Elementwise, Uses, elementwise};
use crate::wgsl::{self, Text};

/// Everything about one kernel that the output needs.
pub(crate) struct Launched<'a> {
    pub(crate) module: &'a Module,
    pub(crate) uses: &'a [Uses],
    pub(crate) differing: &'a Differing,
    pub(crate) at: usize,
    pub(crate) signature: &'a Signature,
    pub(crate) attrs: &'a [syn::Attribute],
    pub(crate) vis: &'a syn::Visibility,
    /// The path of the `windlass` crate.
    pub(crate) root: &'a TokenStream,
}

impl Launched<'_> {
    fn function(&self) -> &Function {
        &self.module.functions[self.at]
    }

    /// The position of each parameter's slot; views take a second one for their extents.
    fn slots(&self) -> Vec<usize> {
        let (mut slots, mut next) = (Vec::new(), 0);
        for &param in &self.function().params {
            slots.push(next);
            let kind = &self.function().vars[param].kind;
            next += usize::from(!is_fixed_local(kind)) + usize::from(is_view(kind));
        }
        slots
    }

    pub(crate) fn tokens(&self) -> Result<TokenStream, syn::Error> {
        let (root, function, signature) = (self.root, self.function(), self.signature);
        let Text { text, entry, overrides } = wgsl::kernel(self.module, self.uses, self.at);
        check_text(&text, &function.name)?;
        let rt = quote!(#root::__private);
        let (native, spread) = native(self.module, self.uses, self.at, &rt, &self.slots(), self.differing);
        crate::dump::dump(&function.name.to_string(), &native);
        let (slots, uses) = (self.slot_values(), self.slot_uses(&rt, &spread));
        let (mut params, mut arguments, mut first) = (Vec::new(), Vec::new(), 0);
        for written in &signature.params {
            let (name, param) = (&written.name, function.params[first]);
            let ty = match &written.apart {
                Some(Apart { written, parts }) => {
                    first += parts.len();
                    arguments.extend(parts.iter().map(|part| passed(&part.ty, &part.value)));
                    quote!(#written)
                }
                None => {
                    first += 1;
                    if is_fixed_local(&function.vars[param].kind) {
                        continue;
                    }
                    arguments.push(self.argument(param, name, overrides.get(&param)));
                    self.argument_type(param, written)
                }
            };
            params.push(quote!(#name: #ty));
        }
        // What it follows pointers to has slots that nobody passes either.
        let reached =
            function.params.iter().map(|param| &function.vars[*param]).filter(|var| is_reached(&var.kind));
        let reached: Vec<TokenStream> = reached.map(|var| type_tokens(self.module, &rt, &var.ty)).collect();
        arguments.extend(reached.iter().map(|ty| quote!(.reach::<#ty>())));
        arguments.extend(self.fixed_local());
        let zero = format_ident!("{}", crate::apart::ZERO);
        let is_apart = signature.params.iter().any(|written| written.apart.is_some());
        let zero = is_apart.then(|| quote! {
            #[allow(unused_imports, reason = "not all values that are taken apart have parts that may not be there")]
            use #root::__private::Zero as #zero;
        });
        // What it says has a slot of its own, which nobody passes.
        let speaks = function.params.len() > first + reached.len();
        let messages = if speaks { messages::tokens(self.module, &rt) } else { Vec::new() };
        let grouped = self.uses[self.at].groups;
        let (name, vis, attrs) = (&function.name, self.vis, self.attrs);
        let label = name.to_string();
        let about = format!("The kernel [`{label}`] itself.");
        let needs = self.needs();
        let fast = function.fast;
        let group = function.group.iter().map(|extent| *extent as usize);
        let dims = crate::uses::dims_asked(self.module, self.at);
        let (loops, ends) = crate::uses::loops(self.module, self.at);
        let (light, reduces) = (!loops, !function.reductions.is_empty());
        let placed = crate::uses::placed(function, dims);
        let slots_of = function.params.iter().zip(self.slots());
        // With a slot that has no bit nobody could tell that the launch is covered, so none of them is.
        let mut placed = slots_of.filter(|(param, _)| placed.contains(param));
        let placed = placed.try_fold(0_u64, |all, (_, at)| (at < 64).then(|| all | 1 << at)).unwrap_or(0);
        let made = crate::promise::kernel(&rt);
        let agreed = (!reached.is_empty()).then(|| {
            quote!(
                const _: () = ::core::assert!(#rt::REACH_PARTS == #PARTS);
            )
        });
        // In the order in which the call gives them.
        let built_with = function.params.iter().filter_map(|param| {
            let (parameter, name) = (function.vars[*param].name.to_string(), overrides.get(param)?);
            let parameter = parameter.trim_start_matches("r#");
            let held = match function.specs.contains(param) {
                true => format_ident!("{}", function.vars[*param].ty.scalar().map_or("u32", Scalar::name)),
                false => format_ident!("u32"),
            };
            Some(quote!(#root::__private::Override { parameter: #parameter, name: #name, held: #rt::held::#held }))
        });
        let (promise, keyword) = match function.alone {
            false => (quote!(), quote!()),
            true => crate::promise::of_caller(),
        };
        Ok(quote! {
            #(#attrs)*
            #promise
            #[allow(clippy::too_many_arguments)]
            #vis #keyword fn #name<'g>(#(#params),*) -> #root::KernelCall<'g> {
                #zero
                #root::KernelCall::new(#name::kernel())#(#arguments)*
            }

            #[doc = #about]
            #vis mod #name {
                #[allow(
                    unused,
                    non_snake_case,
                    clippy::all,
                    clippy::pedantic,
                    reason = "what follows is written by the attribute"
                )]
                mod code {
                    use super::super::*;
                    // Compilers compile anew when it changes, and the attribute writes what it was asked for.
                    const _: ::core::option::Option<&str> = ::core::option_env!("WINDLASS_DUMP");
                    #agreed
                    #native
                    pub(super) static KERNEL: ::std::sync::LazyLock<#root::__private::Kernel> =
                        ::std::sync::LazyLock::new(|| {
                            let parts = #rt::Parts {
                            name: #label,
                            grouped: #grouped,
                            group: &[#(#group),*],
                            fast: #fast,
                            slots: const { &[#(#slots),*] },
                            entry: #entry,
                            text: #text,
                            uses: const { &[#(#uses),*] },
                            run,
                            needs: &[#(#needs),*],
                            overrides: &[#(#built_with),*],
                            shaping: #rt::Shaping { dims: #dims, light: #light, reduces: #reduces, placed: #placed },
                            ends: #ends,
                            messages: const { &[#(#messages),*] },
                            };
                            #made
                        });
                }

                /// The kernel, to be asked what it is or built ahead.
                pub fn kernel() -> &'static #root::__private::Kernel {
                    &code::KERNEL
                }
            }
        })
    }

    /// What the kernel and its helpers ask of a device.
    fn needs(&self) -> Vec<TokenStream> {
        let root = self.root;
        let need = quote!(#root::__private::Need);
        let found = crate::uses::scalars(self.module, self.at);
        let wide = |s: &Scalar| matches!(s, Scalar::I64 | Scalar::U64);
        let atomics = self.function().vars.iter().any(|var| {
            matches!((&var.kind, &var.ty), (VarKind::Slice(Slice { may: May::Atomic, .. }), Ty::Scalar(s)) if wide(s))
        });
        let reduced = |reduction: &Reduction| reduction.combined.ty.scalar().is_some_and(|s| s.bits() == 64);
        let atomics = atomics || self.function().reductions.iter().any(reduced);
        let mut needs = Vec::new();
        if found.contains(&Scalar::F16) {
            needs.push(quote!(#need::Fp16));
        }
        if found.contains(&Scalar::F64) {
            needs.push(quote!(#need::Fp64));
        }
        if found.iter().any(wide) {
            needs.push(quote!(#need::Int64));
        }
        if atomics {
            needs.push(quote!(#need::Atomic64));
        }
        if self.uses[self.at].subgroups {
            needs.push(quote!(#need::Subgroups));
        }
        if self.function().params.iter().any(|param| is_reached(&self.function().vars[*param].kind)) {
            needs.push(quote!(#need::Pointers));
        }
        match self.uses[self.at].order {
            Some(Order::SeqCst) => needs.push(quote!(#need::SequentiallyConsistent)),
            Some(_) => needs.push(quote!(#need::AcquireRelease)),
            None => {}
        }
        needs
    }

    fn slot_values(&self) -> Vec<TokenStream> {
        let root = self.root;
        let slot = quote!(#root::__private::Slot);
        let access = quote!(#root::__private::SlotAccess);
        let mut slots = Vec::new();
        for &param in &self.function().params {
            let var = &self.function().vars[param];
            match &var.kind {
                kind if is_reached(kind) => slots.push(quote!(#slot::Value(#root::__private::REACH_BYTES))),
                VarKind::Slice(Slice { may: May::Read, space: Space::Global, .. }) => {
                    slots.push(quote!(#slot::Buffer(#access::Read)));
                }
                VarKind::Slice(Slice { space: Space::Global, .. }) => {
                    slots.push(quote!(#slot::Buffer(#access::ReadWrite)))
                }
                VarKind::Slice(Slice { space: Space::Local(Some(_)), .. }) => {}
                // How many elements there are; the memory itself is the text's.
                VarKind::Slice(_) => slots.push(quote!(#slot::Value(4))),
                VarKind::Ref => slots.push(quote!(#slot::Buffer(#access::ReadWrite))),
                VarKind::Value => {
                    let ty = self.value_type(&var.ty);
                    slots.push(quote!(#slot::Value(::core::mem::size_of::<#ty>())));
                }
            }
            if let VarKind::Slice(Slice { dims: dims @ 2.., .. }) = &var.kind {
                let bytes = 4 * *dims as usize;
                slots.push(quote!(#slot::Value(#bytes)));
            }
        }
        slots
    }

    fn slot_uses(&self, rt: &TokenStream, spread: &Spread) -> Vec<TokenStream> {
        let function = self.function();
        let proof = elementwise(function, &self.uses[self.at]);
        let dims_of = |set: fn(&Elementwise) -> &BTreeSet<VarId>, param: &VarId| {
            proof.as_ref().filter(|proof| set(proof).contains(param)).map(|proof| usize::from(proof.dims))
        };
        let own = |param: &VarId| dims_of(|proof| &proof.own, param);
        let along = |param: &VarId| dims_of(|proof| &proof.along, param);
        let mut uses = Vec::new();
        for &param in &function.params {
            let var = &function.vars[param];
            let ty = type_tokens(self.module, rt, &var.ty);
            let parameter = var.name.to_string();
            match &var.kind {
                kind if is_reached(kind) => uses.push(quote!(#rt::SlotUse::REACHED)),
                VarKind::Slice(Slice { space: Space::Local(Some(_)), .. }) => {}
                VarKind::Slice(Slice { space: Space::Local(None), .. }) => {
                    uses.push(quote!(#rt::SlotUse::VALUE))
                }
                VarKind::Slice(slice) => {
                    uses.push(match slice.may {
                        // In one dimension what is read need not be as long as what is written.
                        May::Read => match along(&param) {
                            Some(dims @ 2..) => quote!(#rt::SlotUse::along::<#ty, #dims>(#parameter)),
                            _ => quote!(#rt::SlotUse::read::<#ty>(#parameter)),
                        },
                        May::Atomic => {
                            quote!(#rt::SlotUse::write::<#ty>(#parameter).by(#rt::Way::Atomics))
                        }
                        May::Write => match (own(&param), spread.way(param, rt)) {
                            (Some(dims), _) => quote!(#rt::SlotUse::own::<#ty, #dims>(#parameter)),
                            (None, way) => quote!(#rt::SlotUse::write::<#ty>(#parameter).by(#way)),
                        },
                    });
                    if slice.dims > 1 {
                        let dims = slice.dims as usize;
                        uses.push(quote!(#rt::SlotUse::extents(#dims)));
                    }
                }
                VarKind::Ref => {
                    uses.push(quote!(#rt::SlotUse::write::<#ty>(#parameter).by(#rt::Way::Reduced)))
                }
                VarKind::Value => uses.push(quote!(#rt::SlotUse::VALUE)),
            }
        }
        uses
    }

    /// The type in which a value crosses to the device.
    fn value_type(&self, ty: &Ty) -> TokenStream {
        let root = self.root;
        match ty {
            Ty::Scalar(Scalar::Bool) => quote!(u32),
            ty => type_tokens(self.module, &quote!(#root::__private), ty),
        }
    }

    /// What the launch function takes for a parameter. The bound stands where the parameter's type was written, so
    /// that the compiler points there.
    fn argument_type(&self, param: VarId, written: &Param) -> TokenStream {
        let (root, span) = (self.root, written.span);
        let var = &self.function().vars[param];
        let ty = type_tokens(self.module, &quote!(#root::__private), &var.ty);
        if var.kind == VarKind::Ref {
            return quote_spanned!(span=> impl #root::args::UpdateArg<'g, #ty>);
        }
        let VarKind::Slice(slice) = &var.kind else {
            return match self.pointee(&var.ty) {
                Some(to) => quote_spanned!(span=> impl #root::args::PtrArg<'g, #to>),
                None => ty,
            };
        };
        if slice.space != Space::Global {
            return quote_spanned!(span=> usize);
        }
        let dims = slice.dims as usize;
        let uses = &self.uses[self.at];
        let bound = bound(slice.may, uses, param);
        quote_spanned!(span=> impl #root::args::#bound<'g, #ty, #dims>)
    }

    /// What a pointer leads to.
    fn pointee(&self, ty: &Ty) -> Option<TokenStream> {
        let (Ty::Struct(at), root) = (ty, self.root) else { return None };
        match &self.module.structs[*at] {
            Struct { is_pointer: true, actuals, .. } => match actuals.first() {
                Some(Actual::Type(to)) => Some(type_tokens(self.module, &quote!(#root::__private), to)),
                _ => None,
            },
            _ => None,
        }
    }

    /// What tells a call of the local memory that its kernel has by itself.
    fn fixed_local(&self) -> Option<TokenStream> {
        let fixed = self.function().params.iter().filter_map(|&param| {
            let var = &self.function().vars[param];
            let VarKind::Slice(Slice { space: Space::Local(Some(len)), .. }) = var.kind else { return None };
            let (ty, len) = (self.value_type(&var.ty), len as usize);
            Some(quote!(#len * ::core::mem::size_of::<#ty>()))
        });
        let fixed: Vec<TokenStream> = fixed.collect();
        (!fixed.is_empty()).then(|| quote!(.own_local(#(#fixed)+*)))
    }

    fn argument(&self, param: VarId, name: &Ident, built_with: Option<&String>) -> TokenStream {
        let root = self.root;
        let var = &self.function().vars[param];
        let uses = &self.uses[self.at];
        if var.kind == VarKind::Ref {
            let ty = type_tokens(self.module, &quote!(#root::__private), &var.ty);
            return quote!(.argument(#root::args::UpdateArg::<'g, #ty>::argument(#name)));
        }
        if self.function().specs.contains(&param) {
            let key = built_with;
            return match var.ty {
                Ty::Scalar(Scalar::Bool) => {
                    quote!(.spec_argument(#key, u32::from(#name), f64::from(u32::from(#name))))
                }
                _ => quote!(.spec_argument(#key, #name, f64::from(#name))),
            };
        }
        let VarKind::Slice(slice) = &var.kind else {
            return match self.pointee(&var.ty) {
                Some(to) => quote!(.pointer_argument::<#to>(#name)),
                None => passed(&var.ty, &quote!(#name)),
            };
        };
        if slice.space != Space::Global {
            let ty = self.value_type(&var.ty);
            return quote!(.local_argument::<#ty>(#built_with, #name));
        }
        let bound = bound(slice.may, uses, param);
        let (ty, dims) = (type_tokens(self.module, &quote!(#root::__private), &var.ty), slice.dims as usize);
        let argument = quote!(#root::args::#bound::<'g, #ty, #dims>::argument(#name));
        match slice.dims {
            1 => quote!(.argument(#argument)),
            _ => quote!(.view_argument::<#dims>(#argument)),
        }
    }
}

/// A value as the launch takes it.
fn passed(ty: &Ty, value: &TokenStream) -> TokenStream {
    match ty {
        Ty::Scalar(Scalar::Bool) => quote!(.value(u32::from(#value))),
        _ => quote!(.value(#value)),
    }
}

/// The trait that an argument must have. What a kernel reads back it must be allowed to read.
fn bound(may: May, uses: &Uses, param: VarId) -> Ident {
    let name = match (may, uses.read.contains(&param), uses.written.contains(&param)) {
        (May::Read, ..) => "ReadArg",
        (May::Atomic, ..) => "AtomicArg",
        (May::Write, false, true) => "WriteArg",
        (May::Write, ..) => "UpdateArg",
    };
    format_ident!("{name}")
}

/// Whether a parameter is local memory of a fixed size, which nobody passes.
fn is_fixed_local(kind: &VarKind) -> bool {
    matches!(kind, VarKind::Slice(Slice { space: Space::Local(Some(_)), .. }))
}

fn is_view(kind: &VarKind) -> bool {
    matches!(kind, VarKind::Slice(Slice { dims: 2.., .. }))
}

/// No device reads the text.
#[cfg(not(feature = "naga"))]
fn check_text(_: &str, _: &Ident) -> Result<(), syn::Error> {
    Ok(())
}

/// What the device's text says, naga must agree with: if it does not, the fault is in this macro.
#[cfg(feature = "naga")]
fn check_text(text: &str, name: &Ident) -> Result<(), syn::Error> {
    use naga::front::wgsl::{Frontend, Options};
    use naga::valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
    let capabilities = Capabilities::FLOAT64
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::SHADER_INT64
        | Capabilities::SHADER_INT64_ATOMIC_ALL_OPS
        | Capabilities::SHADER_INT64_ATOMIC_MIN_MAX
        | Capabilities::SUBGROUP
        | Capabilities::SUBGROUP_BARRIER;
    let mut options = Options::new();
    options.capabilities = capabilities;
    let wrong = |what: String| {
        let message = format!(
            "the device's text for `{name}` was refused, which is a fault of `#[kernel]`, not of the kernel; please \
             report it with the kernel:\n{what}\n{text}"
        );
        syn::Error::new(name.span(), message)
    };
    let module =
        Frontend::new_with_options(options).parse(text).map_err(|e| wrong(e.emit_to_string(text)))?;
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    validator.validate(&module).map_err(|e| wrong(e.emit_to_string(text)))?;
    Ok(())
}
