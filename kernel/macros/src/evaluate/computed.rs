//! Which constants are computed.

use std::collections::HashSet;

use syn::visit::Visit;

use crate::types::vector_made;

/// The constants that functions compute, and those that name such.
pub(crate) fn computed<'a>(consts: impl Iterator<Item = &'a syn::ItemConst> + Clone) -> HashSet<String> {
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for item in consts.clone() {
            let mut calls = Calls { computed: &found, found: false };
            syn::visit::visit_expr(&mut calls, &item.expr);
            if calls.found {
                found.insert(item.ident.to_string());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Looks for calls, but of what makes a vector, and for names of constants that have some.
struct Calls<'a> {
    computed: &'a HashSet<String>,
    found: bool,
}

impl<'ast> Visit<'ast> for Calls<'_> {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        self.found |= matches!(&*call.func, syn::Expr::Path(path) if vector_made(&path.path).is_none());
        call.args.iter().for_each(|arg| self.visit_expr(arg));
    }

    fn visit_expr_method_call(&mut self, _: &'ast syn::ExprMethodCall) {
        self.found = true;
    }

    fn visit_ident(&mut self, name: &'ast proc_macro2::Ident) {
        self.found |= self.computed.contains(&name.to_string());
    }
}
