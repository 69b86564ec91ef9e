//! `debug!`.

use proc_macro2::Ident;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;

use super::Checker;
use crate::hir::{Expr, Kind};
use crate::messages::Message;
use crate::ty::Ty;

/// What stands in the parentheses.
struct Said {
    format: syn::LitStr,
    values: Vec<(Option<Ident>, syn::Expr)>,
}

impl Parse for Said {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (format, mut values) = (input.parse()?, Vec::new());
        while !input.is_empty() {
            input.parse::<syn::Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let is_named =
                input.peek(syn::Ident) && input.peek2(syn::Token![=]) && !input.peek2(syn::Token![==]);
            let name = match is_named {
                true => {
                    let name = input.parse()?;
                    input.parse::<syn::Token![=]>()?;
                    Some(name)
                }
                false => None,
            };
            values.push((name, input.parse()?));
        }
        Ok(Said { format, values })
    }
}

/// Whether it is `debug!`.
pub(super) fn is_message(mac: &syn::Macro) -> bool {
    mac.path.is_ident("debug")
}

impl Checker<'_> {
    pub(super) fn message(&mut self, mac: &syn::Macro) -> Expr {
        let span = mac.path.span();
        let Said { format, mut values } = match mac.parse_body() {
            Ok(said) => said,
            Err(error) => {
                self.errors
                    .at(error.span(), format!("`debug!` takes a format and values, like `format!`: {error}"));
                return Expr::new(Kind::Unit, Ty::Unit, span);
            }
        };
        for name in captured(&format.value()) {
            if !values.iter().any(|(known, _)| known.as_ref().is_some_and(|known| *known == name)) {
                let name = Ident::new(&name, format.span());
                values.push((Some(name.clone()), syn::parse_quote!(#name)));
            }
        }
        let names = values.iter().map(|(name, _)| name.clone()).collect();
        let values = values.iter().map(|(_, value)| self.expr(value)).collect();
        let format = format.token();
        let message = Message { format, names, span, types: Vec::new(), positions: 0 };
        Expr::new(Kind::Message(Box::new(message), values), Ty::Unit, span)
    }
}

/// The names that stand in a format's braces, each once.
fn captured(format: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let text = format.replace("{{", "");
    for piece in text.split('{').skip(1) {
        let inside = piece.split(['}', ':']).next().unwrap_or_default().trim();
        let is_name = inside.starts_with(|first: char| first.is_alphabetic() || first == '_');
        if is_name && syn::parse_str::<Ident>(inside).is_ok() && !names.iter().any(|name| name == inside) {
            names.push(inside.into());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::captured;

    #[test]
    fn names_in_braces_are_found_once() {
        assert_eq!(captured("{a} {} {0} {b:>4} {{c}} {a:?} {:?}"), ["a", "b"]);
        assert!(captured("nothing").is_empty());
    }
}
