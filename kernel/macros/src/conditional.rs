//! `#[cfg(…)]` inside kernels. Whether it holds is known to the compiler, and not to a macro: so the macro makes the item
//! twice, once with what stands under the condition and once without, and has the compiler take one of them.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::visit_mut::{self, VisitMut};

/// An item with the first condition that stands in it decided both ways; `None` where there is none. `attribute` is what
/// stands on the item.
pub(crate) fn decided(
    attribute: &TokenStream,
    item: &TokenStream,
) -> Result<Option<TokenStream>, syn::Error> {
    let Some(condition) = first(item.clone(), true) else { return Ok(None) };
    let item: syn::Item = syn::parse2(item.clone())?;
    let with = |holds: bool| {
        let mut item = item.clone();
        Decide { condition: condition.to_string(), holds }.visit_item_mut(&mut item);
        item
    };
    let (yes, no) = (with(true), with(false));
    if first(yes.to_token_stream(), true).is_some_and(|left| left.to_string() == condition.to_string()) {
        return Err(syn::Error::new_spanned(
            condition,
            "`#[cfg]` stands on statements, items, fields, parameters and arms of a `match` in kernels, and on nothing else",
        ));
    }
    Ok(Some(quote! {
        #[cfg(#condition)]
        #attribute
        #yes
        #[cfg(not(#condition))]
        #attribute
        #no
    }))
}

/// The first condition in braces or parentheses below an item; those on the item itself are the compiler's.
fn first(tokens: TokenStream, outermost: bool) -> Option<TokenStream> {
    let mut hash = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if hash && group.delimiter() == Delimiter::Bracket => {
                hash = false;
                let found = condition(group.stream()).filter(|_| !outermost);
                if found.is_some() {
                    return found;
                }
            }
            TokenTree::Group(group) => {
                hash = false;
                let found = first(group.stream(), false);
                if found.is_some() {
                    return found;
                }
            }
            TokenTree::Punct(punct) => hash = punct.as_char() == '#',
            _ => hash = false,
        }
    }
    None
}

/// What an attribute asks for, if it is `cfg(…)`.
fn condition(attribute: TokenStream) -> Option<TokenStream> {
    let mut tokens = attribute.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(asked))) if name == "cfg" => {
            Some(asked.stream())
        }
        _ => None,
    }
}

/// Takes a condition for true or false.
struct Decide {
    condition: String,
    holds: bool,
}

impl Decide {
    /// Whether something with these attributes stays, which lose the condition.
    fn stays(&self, attrs: &mut Vec<syn::Attribute>) -> bool {
        let before = attrs.len();
        attrs.retain(|attr| match &attr.meta {
            syn::Meta::List(list) => {
                !(list.path.is_ident("cfg") && list.tokens.to_string() == self.condition)
            }
            _ => true,
        });
        self.holds || attrs.len() == before
    }

    fn keep<T, P: Clone + Default>(
        &self,
        of: &mut syn::punctuated::Punctuated<T, P>,
        attrs: impl Fn(&mut T) -> Option<&mut Vec<syn::Attribute>>,
    ) {
        let parts = std::mem::take(of);
        of.extend(parts.into_iter().filter_map(|mut part| {
            let stays = attrs(&mut part).is_none_or(|attrs| self.stays(attrs));
            stays.then_some(part)
        }));
    }
}

impl VisitMut for Decide {
    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain_mut(|stmt| attrs_of_stmt(stmt).is_none_or(|attrs| self.stays(attrs)));
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain_mut(|item| attrs_of_item(item).is_none_or(|attrs| self.stays(attrs)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        item.items.retain_mut(|part| match part {
            syn::ImplItem::Fn(part) => self.stays(&mut part.attrs),
            syn::ImplItem::Const(part) => self.stays(&mut part.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, item);
    }

    fn visit_item_enum_mut(&mut self, item: &mut syn::ItemEnum) {
        self.keep(&mut item.variants, |variant| Some(&mut variant.attrs));
    }

    fn visit_fields_named_mut(&mut self, fields: &mut syn::FieldsNamed) {
        self.keep(&mut fields.named, |field| Some(&mut field.attrs));
    }

    fn visit_signature_mut(&mut self, signature: &mut syn::Signature) {
        self.keep(&mut signature.inputs, |input| match input {
            syn::FnArg::Typed(typed) => Some(&mut typed.attrs),
            syn::FnArg::Receiver(_) => None,
        });
    }

    fn visit_expr_struct_mut(&mut self, made: &mut syn::ExprStruct) {
        self.keep(&mut made.fields, |field| Some(&mut field.attrs));
        visit_mut::visit_expr_struct_mut(self, made);
    }

    fn visit_expr_match_mut(&mut self, choice: &mut syn::ExprMatch) {
        choice.arms.retain_mut(|arm| self.stays(&mut arm.attrs));
        visit_mut::visit_expr_match_mut(self, choice);
    }
}

fn attrs_of_item(item: &mut syn::Item) -> Option<&mut Vec<syn::Attribute>> {
    match item {
        syn::Item::Fn(item) => Some(&mut item.attrs),
        syn::Item::Impl(item) => Some(&mut item.attrs),
        syn::Item::Struct(item) => Some(&mut item.attrs),
        syn::Item::Enum(item) => Some(&mut item.attrs),
        syn::Item::Const(item) => Some(&mut item.attrs),
        syn::Item::Type(item) => Some(&mut item.attrs),
        syn::Item::Use(item) => Some(&mut item.attrs),
        _ => None,
    }
}

fn attrs_of_stmt(stmt: &mut syn::Stmt) -> Option<&mut Vec<syn::Attribute>> {
    match stmt {
        syn::Stmt::Local(local) => Some(&mut local.attrs),
        syn::Stmt::Item(item) => attrs_of_item(item),
        syn::Stmt::Macro(call) => Some(&mut call.attrs),
        syn::Stmt::Expr(expr, _) => attrs_of_expr(expr),
    }
}

/// Those in front of an expression, which `syn` keeps at what it begins with: at `x` in `x += 1`.
fn attrs_of_expr(expr: &mut syn::Expr) -> Option<&mut Vec<syn::Attribute>> {
    use syn::Expr;
    match expr {
        Expr::Assign(expr) => attrs_of_expr(&mut expr.left),
        Expr::Binary(expr) => attrs_of_expr(&mut expr.left),
        Expr::Cast(expr) => attrs_of_expr(&mut expr.expr),
        Expr::Block(expr) => Some(&mut expr.attrs),
        Expr::Break(expr) => Some(&mut expr.attrs),
        Expr::Call(expr) => Some(&mut expr.attrs),
        Expr::Continue(expr) => Some(&mut expr.attrs),
        Expr::Field(expr) => Some(&mut expr.attrs),
        Expr::ForLoop(expr) => Some(&mut expr.attrs),
        Expr::If(expr) => Some(&mut expr.attrs),
        Expr::Index(expr) => Some(&mut expr.attrs),
        Expr::Loop(expr) => Some(&mut expr.attrs),
        Expr::Match(expr) => Some(&mut expr.attrs),
        Expr::MethodCall(expr) => Some(&mut expr.attrs),
        Expr::Path(expr) => Some(&mut expr.attrs),
        Expr::Return(expr) => Some(&mut expr.attrs),
        Expr::Tuple(expr) => Some(&mut expr.attrs),
        Expr::Unary(expr) => Some(&mut expr.attrs),
        Expr::While(expr) => Some(&mut expr.attrs),
        _ => None,
    }
}
