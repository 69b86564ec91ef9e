//! Structs of a `kernels` module, and other names of types.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use crate::enums::{Enum, Variant};
use crate::errors::Errors;
use crate::generic::{Actual, Bound, Generic};
use crate::hir::{Const, Kind, Struct};
use crate::library::texels::{Seen, seen};
use crate::origin::{LIBRARY, Origin, meant};
use crate::ty::{Scalar, Ty};
use crate::types::Types;

const NO_ENUMS: &str =
    "an enum has no fixed form in memory; keep its number, `kind as u32`, in a `u32` there";
const NO_DATA: &str = "an `Option` or an enum with data has no fixed form in memory; keep a number there that says what it is, and the data beside it";
const NO_TUPLES: &str = "tuples have no fixed form in memory; make a struct with `#[derive(DeviceCopy)]`";

/// All of them. A generic struct is a struct of its own for each set of arguments that it is used with.
#[derive(Debug, Default)]
pub(crate) struct Structs<'a> {
    made: RefCell<Vec<Struct>>,
    /// Where each of the plain ones was written.
    plain: RefCell<Vec<(usize, Origin)>>,
    templates: Vec<Template<'a>>,
    enums: Vec<Enum>,
    /// Each as it was written.
    written_enums: Vec<&'a syn::ItemEnum>,
    /// `type Name = …;`
    aliases: Vec<(&'a syn::ItemType, Origin)>,
    /// Integer constants, for lengths.
    lengths: HashMap<String, Vec<(i128, Origin)>>,
}

/// What the name of a struct or an enum stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StructName {
    Plain(usize),
    Template(usize),
    Enum(usize),
}

/// A generic struct.
#[derive(Debug)]
struct Template<'a> {
    item: &'a syn::ItemStruct,
    generics: Vec<Generic>,
    origin: Origin,
}

impl<'a> Structs<'a> {
    pub(crate) fn new(consts: &[Const]) -> Self {
        let mut structs = Structs::default();
        for constant in consts {
            if let Kind::Int(value) = constant.value.kind {
                let of_name = structs.lengths.entry(constant.name.to_string()).or_default();
                of_name.push((value, constant.origin));
            }
        }
        structs
    }

    /// The value of an integer constant of this name in a module.
    pub(crate) fn length(&self, name: &Ident, from: usize) -> Option<i128> {
        meant(self.lengths.get(&name.to_string())?.iter().copied(), from)
    }

    pub(crate) fn alias(&mut self, item: &'a syn::ItemType, origin: Origin, errors: &mut Errors) {
        if let Some(param) = item.generics.params.first() {
            errors.at(param.span(), "another name for a type is not generic in kernels");
        }
        self.aliases.push((item, origin));
    }

    /// What another name stands for.
    pub(crate) fn aliased(&self, name: &Ident, from: usize) -> Option<&'a syn::Type> {
        let named = self.aliases.iter().filter(|(item, _)| item.ident == *name);
        meant(named.map(|(item, origin)| (&*item.ty, *origin)), from)
    }

    /// Takes a generic struct, which is read when it is used.
    pub(crate) fn template(&mut self, item: &'a syn::ItemStruct, origin: Origin, errors: &mut Errors) {
        let generics = crate::generic::read(&item.generics, errors);
        named_fields(item, errors);
        self.templates.push(Template { item, generics, origin });
    }

    pub(crate) fn enumerate(&mut self, item: &'a syn::ItemEnum, origin: Origin, errors: &mut Errors) {
        self.enums.push(Enum::read(item, origin, errors));
        self.written_enums.push(item);
    }

    /// Reads what the variants of the enums hold, once all structs are there.
    pub(crate) fn data_of_enums(&mut self, errors: &mut Errors) {
        for at in 0..self.enums.len() {
            let home = self.enums[at].origin.home;
            let length = |name: &Ident| self.length(name, home);
            let types =
                Types { structs: self, length: &length, bound: &Bound::default(), sizes: false, home };
            let written = self.written_enums[at].variants.iter();
            let found = written
                .map(|variant| variant.fields.iter().map(|field| types.read(&field.ty, errors)).collect());
            let found: Vec<Vec<Ty>> = found.collect();
            for (variant, types) in self.enums[at].variants.iter_mut().zip(found) {
                variant.fields.iter_mut().zip(types).for_each(|((_, ty), found)| *ty = found);
            }
        }
        for at in 0..self.enums.len() {
            if self.holds_itself(&Ty::Enum(at)) {
                let of = &mut self.enums[at];
                errors.at(of.name.span(), format!("`{}` holds itself, and would have no end", of.name));
                // Who walks through types from here on comes to an end.
                of.variants.iter_mut().for_each(|variant| variant.fields.clear());
            }
        }
    }

    /// Whether a type has itself as a part.
    fn holds_itself(&self, ty: &Ty) -> bool {
        self.parts_of(ty).iter().any(|part| {
            self.find_part(part, &mut HashSet::new(), &|part| (part == ty).then_some(())).is_some()
        })
    }

    /// What is found of a type or of something that it is made of. A part that comes up in many places is looked at once.
    fn find_part<T>(&self, ty: &Ty, seen: &mut HashSet<Ty>, found: &dyn Fn(&Ty) -> Option<T>) -> Option<T> {
        if !seen.insert(ty.clone()) {
            return None;
        }
        found(ty).or_else(|| self.parts_of(ty).iter().find_map(|part| self.find_part(part, seen, found)))
    }

    /// The types of which a value of this one is made.
    pub(crate) fn parts_of(&self, ty: &Ty) -> Vec<Ty> {
        match ty {
            Ty::Array(of, _) | Ty::Option(of) => vec![(**of).clone()],
            Ty::Tuple(parts) => parts.clone(),
            Ty::Struct(at) => self.fields_of(*at).into_iter().map(|(_, ty)| ty).collect(),
            Ty::Enum(at) => {
                let fields = self.enums[*at].variants.iter().flat_map(|variant| &variant.fields);
                fields.map(|(_, ty)| ty.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What a type that is one of several things can be: an `Option`, or an enum with data.
    pub(crate) fn variants(&self, ty: &Ty) -> Option<Vec<Variant>> {
        match ty {
            Ty::Option(of) => Some(crate::enums::option((**of).clone(), Span::call_site()).to_vec()),
            Ty::Enum(at) if self.enums[*at].has_data() => Some(self.enums[*at].variants.clone()),
            _ => None,
        }
    }

    /// An enum by its number.
    pub(crate) fn choice(&self, at: usize) -> &Enum {
        &self.enums[at]
    }

    /// Whose functions a value of a type has, and what that is called.
    pub(crate) fn owner(&self, ty: &Ty) -> Option<(StructName, Ident)> {
        match ty {
            Ty::Struct(at) => Some((self.named(*at), self.name(*at))),
            Ty::Enum(at) => Some((StructName::Enum(*at), self.enums[*at].name.clone())),
            _ => None,
        }
    }

    /// Takes a plain struct, whose fields are read when all of the module's have their numbers: one may have a pointer to itself.
    pub(crate) fn plain(&self, item: &syn::ItemStruct, origin: Origin, errors: &mut Errors) -> usize {
        named_fields(item, errors);
        let made = Struct {
            name: item.ident.clone(),
            fields: Vec::new(),
            template: None,
            actuals: Vec::new(),
            is_library: origin.home == LIBRARY && origin.is_open,
            is_pointer: false,
            // The host has no name for those that the library keeps to itself.
            is_tuple: origin.home == LIBRARY && !origin.is_open,
        };
        self.made.borrow_mut().push(made);
        let at = self.made.borrow().len() - 1;
        self.plain.borrow_mut().push((at, origin));
        at
    }

    /// Reads the fields of a plain struct.
    pub(crate) fn fill(&self, at: usize, item: &syn::ItemStruct, home: usize, errors: &mut Errors) {
        let fields = self.fields(item, &Bound::default(), home, errors);
        self.made.borrow_mut()[at].fields = fields;
        if self.holds_itself(&Ty::Struct(at)) {
            let name = &item.ident;
            errors.at(
                name.span(),
                format!("`{name}` holds itself, and would have no end; it may have a `Ptr<{name}>`"),
            );
            // Who walks through types from here on comes to an end.
            self.made.borrow_mut()[at].fields.clear();
        }
    }

    /// The type of pointers to a type.
    pub(crate) fn pointer(&self, to: Ty) -> usize {
        let actuals = vec![Actual::Type(to)];
        let same = |s: &Struct| s.is_pointer && s.actuals == actuals;
        if let Some(at) = self.made.borrow().iter().position(same) {
            return at;
        }
        let name = |name| Ident::new(name, Span::call_site());
        self.made.borrow_mut().push(Struct {
            name: name("Ptr"),
            fields: vec![(name("address"), Ty::Scalar(Scalar::U64))],
            template: None,
            actuals,
            is_library: false,
            is_pointer: true,
            is_tuple: false,
        });
        self.made.borrow().len() - 1
    }

    /// What a pointer leads to, if a type is one.
    pub(crate) fn pointee(&self, ty: &Ty) -> Option<Ty> {
        let Ty::Struct(at) = ty else { return None };
        let made = self.made.borrow();
        match &made[*at] {
            Struct { is_pointer: true, actuals, .. } => match actuals.first() {
                Some(Actual::Type(to)) => Some(to.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// How many bytes a type has in memory, where nothing lies between its parts.
    pub(crate) fn bytes(&self, ty: &Ty) -> u64 {
        match ty {
            Ty::Scalar(scalar) => u64::from(scalar.bits() / 8),
            Ty::Vector(len, of) => u64::from(*len) * self.bytes(of),
            Ty::Array(of, len) => u64::from(*len).saturating_mul(self.bytes(of)),
            ty => self.parts_of(ty).iter().fold(0, |all, part| all.saturating_add(self.bytes(part))),
        }
    }

    fn fields(
        &self,
        item: &syn::ItemStruct,
        bound: &Bound,
        home: usize,
        errors: &mut Errors,
    ) -> Vec<(Ident, Ty)> {
        let length = |name: &Ident| self.length(name, home);
        let types = Types { structs: self, length: &length, bound, sizes: false, home };
        let syn::Fields::Named(named) = &item.fields else { return Vec::new() };
        let field = |field: &syn::Field| {
            let ty = types.read(&field.ty, errors);
            Some((field.ident.clone()?, ty))
        };
        named.named.iter().filter_map(field).collect()
    }

    /// The struct of this name in a module.
    pub(crate) fn find(&self, name: &Ident, from: usize) -> Option<StructName> {
        let (plain, made) = (self.plain.borrow(), self.made.borrow());
        let plain = plain.iter().filter(|(at, _)| made[*at].name == *name);
        let plain = plain.map(|(at, origin)| (StructName::Plain(*at), *origin));
        let generic = self.templates.iter().enumerate().filter(|(_, template)| template.item.ident == *name);
        let generic = generic.map(|(at, template)| (StructName::Template(at), template.origin));
        let enums = self.enums.iter().enumerate().filter(|(_, of)| of.name == *name);
        let enums = enums.map(|(at, of)| (StructName::Enum(at), of.origin));
        meant(plain.chain(generic).chain(enums), from)
    }

    /// What the name of this one stands for.
    pub(crate) fn named(&self, at: usize) -> StructName {
        self.made.borrow()[at].template.map_or(StructName::Plain(at), StructName::Template)
    }

    pub(crate) fn generics(&self, template: usize) -> &[Generic] {
        &self.templates[template].generics
    }

    /// A generic struct's fields as they were written.
    pub(crate) fn written_fields(&self, template: usize) -> impl Iterator<Item = (&'a Ident, &'a syn::Type)> {
        let fields = self.templates[template].item.fields.iter();
        fields.filter_map(|field| Some((field.ident.as_ref()?, &field.ty)))
    }

    pub(crate) fn name_of_template(&self, template: usize) -> &Ident {
        &self.templates[template].item.ident
    }

    /// The struct that a generic one is with these arguments.
    pub(crate) fn instance(&self, template: usize, actuals: Vec<Actual>, errors: &mut Errors) -> usize {
        let same = |s: &Struct| s.template == Some(template) && s.actuals == actuals;
        if let Some(at) = self.made.borrow().iter().position(same) {
            return at;
        }
        let Template { item, generics, origin } = &self.templates[template];
        // Its place first: a struct that has itself as a field would be read for ever.
        let name = item.ident.clone();
        let at = self.made.borrow().len();
        let fields = Vec::new();
        self.made.borrow_mut().push(Struct {
            name,
            fields,
            template: Some(template),
            actuals: actuals.clone(),
            is_library: false,
            is_pointer: false,
            is_tuple: false,
        });
        let fields = self.fields(item, &Bound::of(generics, &actuals), origin.home, errors);
        self.made.borrow_mut()[at].fields = fields;
        if self.holds_itself(&Ty::Struct(at)) {
            errors.at(item.ident.span(), format!("`{}` holds itself, and would have no end", item.ident));
            self.made.borrow_mut()[at].fields.clear();
        }
        at
    }

    /// Whether there is an enum or an `Option` in a type.
    pub(crate) fn has_enum(&self, ty: &Ty) -> bool {
        let is_one = |part: &Ty| matches!(part, Ty::Enum(_) | Ty::Option(_)).then_some(());
        self.find_part(ty, &mut HashSet::new(), &is_one).is_some()
    }

    /// Why a type has no form that memory and the values of a launch can have, where that is so.
    pub(crate) fn formless(&self, ty: &Ty) -> Option<&'static str> {
        self.find_part(ty, &mut HashSet::new(), &|part| match part {
            Ty::Option(_) => Some(NO_DATA),
            Ty::Enum(at) if self.enums[*at].has_data() => Some(NO_DATA),
            Ty::Enum(_) => Some(NO_ENUMS),
            Ty::Tuple(_) => Some(NO_TUPLES),
            _ => None,
        })
    }

    /// Which generic struct this one is of, and with which arguments.
    pub(crate) fn origin(&self, at: usize) -> Option<(usize, Vec<Actual>)> {
        let made = self.made.borrow();
        Some((made[at].template?, made[at].actuals.clone()))
    }

    /// What kernels see of a texel of this type, if it is a format's.
    pub(crate) fn texel(&self, ty: &Ty) -> Option<Seen> {
        let Ty::Struct(at) = ty else { return None };
        let made = self.made.borrow();
        made[*at].is_library.then(|| seen(&made[*at].name.to_string())).flatten()
    }

    pub(crate) fn name(&self, at: usize) -> Ident {
        self.made.borrow()[at].name.clone()
    }

    pub(crate) fn fields_of(&self, at: usize) -> Vec<(Ident, Ty)> {
        self.made.borrow()[at].fields.clone()
    }

    /// A field's place and type.
    pub(crate) fn field(&self, at: usize, name: &str) -> Option<(usize, Ty)> {
        let made = self.made.borrow();
        let named = made[at].fields.iter().position(|(field, _)| *field == name);
        // Of a pointer that is its own affair.
        let place = named.filter(|_| !made[at].is_pointer)?;
        Some((place, made[at].fields[place].1.clone()))
    }

    pub(crate) fn show(&self, at: usize, show: &dyn Fn(&Ty) -> String) -> String {
        let made = self.made.borrow();
        let Struct { name, actuals, .. } = &made[at];
        let actuals = actuals.iter().map(|actual| match actual {
            Actual::Type(ty) => show(ty),
            Actual::Length(len) => len.to_string(),
        });
        let actuals: Vec<String> = actuals.collect();
        if actuals.is_empty() { name.to_string() } else { format!("{name}<{}>", actuals.join(", ")) }
    }

    pub(crate) fn into_made(self) -> (Vec<Struct>, Vec<Enum>) {
        (self.made.into_inner(), self.enums)
    }
}

fn named_fields(item: &syn::ItemStruct, errors: &mut Errors) {
    match &item.fields {
        syn::Fields::Named(named) if named.named.is_empty() => {
            errors.at(item.ident.span(), "a struct for kernels has at least one field");
        }
        syn::Fields::Named(_) => {}
        syn::Fields::Unnamed(fields) => errors.at(fields.span(), "a struct for kernels has named fields"),
        syn::Fields::Unit => errors.at(item.ident.span(), "a struct for kernels has at least one field"),
    }
}
