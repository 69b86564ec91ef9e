//! Assignments: to variables and to parts of them, and to elements and parts of those.

use proc_macro2::TokenStream;
use quote::quote;

use super::model::Window;
use super::value::axis;
use super::{Reach, Rust};
use crate::hir::{Base, BinOp, Expr, Kind, Place, Step};
use crate::pointers::is_reached;
use crate::ty::Ty;

impl Rust<'_> {
    pub(super) fn assign(&self, place: &Place, op: Option<BinOp>, value: &Expr) -> TokenStream {
        let value = self.value(value);
        let Some(op) = op else { return self.write_place(place, value) };
        if let Some(cell) = self.cell(place) {
            let new = self.arithmetic(op, &place.ty, quote!(cell.get()), quote!(value));
            return quote!({ let value = #value; let cell = #cell; cell.set(#new); });
        }
        match self.direct(place) {
            Some(text) => {
                let new = self.arithmetic(op, &place.ty, quote!(*place), quote!(value));
                quote!({ let value = #value; if let Some(place) = #text { *place = #new; } })
            }
            None => {
                // The indices are evaluated once, for reading and for writing.
                let (indices, at, offset) = self.element_part(place);
                let ty = self.ty(&place.ty);
                let new = self.arithmetic(op, &place.ty, quote!(old), quote!(value));
                let (part, set_part) = (self.part(place, &at), self.set_part(place, &at, &new));
                quote!({
                    let value = #value;
                    #indices
                    if let Some(offset) = #offset {
                        let old: #ty = #part;
                        #set_part;
                    }
                })
            }
        }
    }

    pub(super) fn write_place(&self, place: &Place, value: TokenStream) -> TokenStream {
        let rt = self.rt;
        if let Some(cell) = self.cell(place) {
            return quote!({ let value = #value; #cell.set(value); });
        }
        if let Some(text) = self.plain(place) {
            return quote!(#text = #value;);
        }
        if let Some(text) = self.direct(place) {
            return quote!({ let value = #value; if let Some(place) = #text { *place = value; } });
        }
        let view = self.view(place);
        if let (Base::Element(var, at), true) = (&place.base, place.path.is_empty()) {
            let at = at.iter().map(|at| self.value(at));
            if is_reached(&self.function.vars[*var].kind) {
                return quote!({ let value = #value; #view.set(#(#at),*, value); });
            }
            return quote!({ let value = #value; #rt::Store::set(&#view, [#(#at),*], value); });
        }
        let (indices, at, offset) = self.element_part(place);
        let set_part = self.set_part(place, &at, &quote!(value));
        quote!({
            let value = #value;
            #indices
            if let Some(offset) = #offset {
                #set_part;
            }
        })
    }

    pub(super) fn read_place(&self, place: &Place) -> TokenStream {
        let rt = self.rt;
        if let Some(cell) = self.cell(place) {
            return quote!(#cell.get());
        }
        if let Some(text) = self.plain(place) {
            return text;
        }
        if let Some(text) = self.direct(place) {
            return quote!((if let Some(place) = #text { *place } else { #rt::Zero::ZERO }));
        }
        let (indices, at, offset) = self.element_part(place);
        let part = self.part(place, &at);
        quote!({
            #indices
            if let Some(offset) = #offset { #part } else { #rt::Zero::ZERO }
        })
    }

    /// What is known about an element's index before the items come to it.
    pub(super) fn window(&self, at: &[Expr]) -> Option<&Window> {
        self.windows.get(&std::ptr::from_ref(at.first()?))
    }

    /// A whole element that was found before.
    pub(super) fn cell(&self, place: &Place) -> Option<TokenStream> {
        match &place.base {
            Base::Element(_, at) if place.path.is_empty() => self.window(at).map(Window::cell),
            _ => None,
        }
    }

    /// A place that is there whatever happens, as Rust writes it.
    fn plain(&self, place: &Place) -> Option<TokenStream> {
        let mut text = self.root(place)?;
        for step in &place.path {
            text = match step {
                Step::Field(of, at) => {
                    let field = super::field(self.module, *of, *at);
                    quote!(#text.#field)
                }
                Step::Component(at) => {
                    let axis = axis(*at);
                    quote!(#text.#axis)
                }
                Step::Index(index, len) => match index.kind {
                    Kind::Int(known) if known < i128::from(*len) => {
                        let known = known as usize;
                        quote!(#text[#known])
                    }
                    _ => return None,
                },
            };
        }
        Some(text)
    }

    /// The variable, or the item's own element, at the root of a place.
    fn root(&self, place: &Place) -> Option<TokenStream> {
        match &place.base {
            Base::Var(var) => {
                let name = self.name(*var);
                Some(if self.is_reference(*var) { quote!((*#name)) } else { quote!(#name) })
            }
            Base::Element(var, _) if self.reach(*var) == Reach::Own => {
                let name = self.name(*var);
                Some(quote!(#name[k]))
            }
            Base::Element(..) => None,
        }
    }

    /// A place under a variable as an `Option<&mut T>`, which is `None` where an index is outside.
    fn direct(&self, place: &Place) -> Option<TokenStream> {
        let root = self.root(place)?;
        let rt = self.rt;
        let mut text = quote!(Some(&mut #root));
        for step in &place.path {
            text = match step {
                Step::Field(of, at) => {
                    let field = super::field(self.module, *of, *at);
                    quote!((#text).map(|place| &mut place.#field))
                }
                Step::Component(at) => {
                    let axis = axis(*at);
                    quote!((#text).map(|place| &mut place.#axis))
                }
                Step::Index(index, _) => {
                    let index = self.value(index);
                    quote!({ let at = #index; (#text).and_then(|place| #rt::element_mut(place, at)) })
                }
            };
        }
        Some(text)
    }

    fn view(&self, place: &Place) -> TokenStream {
        match &place.base {
            Base::Element(var, _) | Base::Var(var) => {
                let name = self.name(*var);
                quote!(#name)
            }
        }
    }

    /// The part of an element that stands `offset` bytes behind its start.
    fn part(&self, place: &Place, at: &TokenStream) -> TokenStream {
        let (rt, view) = (self.rt, self.view(place));
        match self.is_followed(place) {
            true => quote!(#view.part(#at[0], offset)),
            false => quote!(#rt::Store::part(&#view, #at, offset)),
        }
    }

    /// Writes it.
    fn set_part(&self, place: &Place, at: &TokenStream, value: &TokenStream) -> TokenStream {
        let (rt, view) = (self.rt, self.view(place));
        match self.is_followed(place) {
            true => quote!(#view.set_part(#at[0], offset, #value)),
            false => quote!(#rt::Store::set_part(&#view, #at, offset, #value)),
        }
    }

    /// Whether a place is one to which a pointer leads.
    fn is_followed(&self, place: &Place) -> bool {
        matches!(place.base, Base::Element(var, _) if is_reached(&self.function.vars[var].kind))
    }

    /// A part of an element in memory: the statements that find its indices, the element's, and the part's offset in
    /// bytes, which is `None` where an index is outside.
    fn element_part(&self, place: &Place) -> (TokenStream, TokenStream, TokenStream) {
        let Base::Element(var, at) = &place.base else { return (quote!(), quote!(), quote!()) };
        let indices = at.iter().map(|at| self.value(at));
        let statements = quote!(let at = [#(#indices),*];);
        let mut ty = self.function.vars[*var].ty.clone();
        let mut offset = quote!(Some(0_usize));
        for step in &place.path {
            match step {
                Step::Field(of, field) => {
                    let item = &self.module.structs[*of];
                    let (whole, field_name) = (self.ty(&Ty::Struct(*of)), &item.fields[*field].0);
                    offset = quote!((#offset).map(|o| o + ::core::mem::offset_of!(#whole, #field_name)));
                    ty = item.fields[*field].1.clone();
                }
                Step::Component(at) => {
                    let Ty::Vector(_, of) = ty else { break };
                    let (of_tokens, at) = (self.ty(&of), *at as usize);
                    offset = quote!((#offset).map(|o| o + #at * ::core::mem::size_of::<#of_tokens>()));
                    ty = *of;
                }
                Step::Index(index, len) => {
                    let Ty::Array(of, _) = ty else { break };
                    let (index, of_tokens) = (self.value(index), self.ty(&of));
                    offset = quote!({
                        let index = #index;
                        (#offset)
                            .filter(|_| index < #len)
                            .map(|o| o + index as usize * ::core::mem::size_of::<#of_tokens>())
                    });
                    ty = *of;
                }
            }
        }
        (statements, quote!(at), offset)
    }
}
