//! A whole program: what it is made of, and the entry point.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use naga::proc::NameKey;
use naga::{AddressSpace, ArraySize, BuiltIn, Function, GlobalVariable, Handle, ShaderStage, TypeInner};

use super::body::Body;
use super::dialect::{Dialect, Position};
use super::flat::Member;
use super::names::Names;
use super::settled::{Settled, settled};
use super::starts::Starts;
use super::types::CType;
use super::{Bounds, Machine, Param, Translation};
use crate::error::{Outcome, TranslateError, refuse};
use crate::far::Far;
use crate::fence::Fence;
use crate::float_add;
use crate::packed::Packed;
use crate::wgsl::Checked;

/// Definitions in the order in which they were first needed.
#[derive(Default)]
pub(super) struct Definitions {
    seen: std::collections::HashSet<String>,
    text: String,
}

impl Definitions {
    pub(super) fn has(&self, name: &str) -> bool {
        self.seen.contains(name)
    }

    pub(super) fn define(&mut self, name: &str, text: impl FnOnce() -> String) {
        if self.seen.insert(name.into()) {
            self.text.push_str(&text());
        }
    }
}

/// The writer's state: the module, and the text so far, in parts.
pub(super) struct Program<'m> {
    pub(super) checked: &'m Checked,
    pub(super) dialect: Dialect,
    pub(super) bounds: Bounds,
    pub(super) machine: Machine,
    pub(super) names: Names,
    pub(super) extensions: String,
    pub(super) types: Definitions,
    /// The writer's own functions.
    pub(super) helpers: Definitions,
    constants: Definitions,
    /// Members of uniform buffers that are passed one by one, and what they are called.
    flat: BTreeMap<Member, String>,
    /// Which of them each function needs, for itself or for what it calls.
    needs: HashMap<Handle<Function>, BTreeSet<Member>>,
    /// The arguments whose pointers are moved to where their ranges start.
    pub(super) starts: Starts,
    pub(super) settled: Settled,
    /// Whether lengths of arrays are asked for.
    lengths: bool,
}

/// What a compiler may rely upon, where it can be told.
const ASSUME: &str = "#if defined(__has_builtin)
#if __has_builtin(__builtin_assume)
#define W_ASSUME(holds) __builtin_assume(holds)
#endif
#endif
#ifndef W_ASSUME
#define W_ASSUME(holds)
#endif
";

impl<'m> Program<'m> {
    pub(super) fn new(
        checked: &'m Checked,
        dialect: Dialect,
        bounds: Bounds,
        machine: Machine,
    ) -> Outcome<Self> {
        // Those that have a value stay, for arrays whose length they are.
        if checked.module.overrides.iter().any(|(_, o)| o.init.is_none()) {
            return Err(TranslateError(
                "overrides must be given values before a module is translated".into(),
            ));
        }
        let module = &checked.module;
        let mut names = Names::new(module, dialect);
        let lengths = bounds == Bounds::Clamped || asks_for_lengths(module);
        if lengths {
            for (handle, _) in module.global_variables.iter() {
                let taken = format!("{}_len", names.of(NameKey::GlobalVariable(handle)));
                names.fresh(&taken);
            }
        }
        let members = super::flat::members(module);
        let starts = match bounds {
            Bounds::Guarded => Starts::new(checked, &members),
            Bounds::Clamped => Starts::default(),
        };
        let flat = members.into_iter().map(|member @ (global, at)| {
            let key = NameKey::StructMember(module.global_variables[global].ty, at);
            let like = names.of(key).to_string();
            (member, names.fresh(&like))
        });
        let flat = flat.collect();
        let needs = super::flat::needs(module, &starts);
        Ok(Program {
            checked,
            dialect,
            bounds,
            machine,
            flat,
            needs,
            starts,
            settled: settled(module),
            lengths,
            names,
            extensions: String::new(),
            types: Definitions::default(),
            helpers: Definitions::default(),
            constants: Definitions::default(),
        })
    }

    /// Has an extension of the language switched on.
    pub(super) fn extend(&mut self, pragma: &str) {
        if !self.extensions.contains(pragma) {
            self.extensions.push_str(pragma);
        }
    }

    pub(super) fn module(&self) -> &'m naga::Module {
        &self.checked.module
    }

    pub(super) fn write(mut self, entry: &str) -> Outcome<Translation> {
        let module = self.module();
        let is_entry = |e: &naga::EntryPoint| e.name == entry && e.stage == ShaderStage::Compute;
        let Some(at) = module.entry_points.iter().position(is_entry) else {
            return Err(TranslateError(format!("there is no compute entry point `{entry}`")));
        };
        let mut functions = String::new();
        for (handle, function) in module.functions.iter() {
            if Fence::of(function).is_some() {
                continue;
            }
            functions.push_str(&self.function(handle, function)?);
        }
        let (text, params) = self.entry_point(at)?;
        let name = self.names.of(NameKey::EntryPoint(at as u16)).to_string();
        let align = match self.dialect {
            Dialect::OpenClC => "#define W_ALIGNED(n) __attribute__((aligned(n)))\n",
            Dialect::CudaC => "#define W_ALIGNED(n) __align__(n)\n",
        };
        let source = [
            self.dialect.opening(),
            &self.extensions,
            if self.types.text.contains("W_ALIGNED") { align } else { "" },
            &self.types.text,
            &self.helpers.text,
            &self.constants.text,
            "\n",
            &functions,
            &text,
        ]
        .concat();
        let fences = self.checked.has_fences();
        let work_group = module.entry_points[at].workgroup_size;
        Ok(Translation { source, entry: name, params, work_group, fences })
    }

    fn function(&mut self, handle: Handle<Function>, function: &'m Function) -> Outcome<String> {
        let module = self.module();
        let mut params = Vec::new();
        for (at, argument) in (0..).zip(&function.arguments) {
            let name = self.names.of(NameKey::FunctionArgument(handle, at)).to_string();
            params.push(match module.types[argument.ty].inner {
                TypeInner::Pointer { base, space } => {
                    let ty = self.c_type(base)?;
                    format!("{}{} *{name}", self.dialect.pointer(space), self.type_name(ty)?)
                }
                ref inner if inner.is_handle_like() => return refuse("textures and samplers"),
                _ => format!("{} {name}", self.handle_name(argument.ty)?),
            });
        }
        let info = &self.checked.info[handle];
        for global in self.used(info) {
            params.extend(self.global_params(global, Some(handle))?.into_iter().map(|(text, _)| text));
        }
        let result = match &function.result {
            Some(result) => self.handle_name(result.ty)?,
            None => "void".into(),
        };
        let name = self.names.of(NameKey::Function(handle)).to_string();
        let ty = naga::back::FunctionType::Function(handle);
        let mut body = Body::new(self, function, info, ty).write("")?;
        if let Some(pointer) = float_add::target(function) {
            let place = Body::new(self, function, info, ty).place(pointer)?;
            let value = self.names.of(NameKey::FunctionArgument(handle, 0)).to_string();
            body = self.dialect.float_add(&place, &value, &body);
        }
        let guarded = self.bounds == Bounds::Guarded;
        if let Some(packed) = Packed::of(module, function, info, self.dialect).filter(|_| guarded) {
            body = self.packed(packed, handle, &result);
        }
        if let Some(far) = Far::of(function).filter(|_| guarded) {
            body = self.far(far, handle, &result)?;
        }
        let params = if params.is_empty() { "void".into() } else { params.join(", ") };
        Ok(format!("{}{result} {name}({params}) {{\n{body}}}\n\n", self.dialect.function()))
    }

    /// The body of a function that reads or writes a small integer.
    fn packed(&self, packed: Packed, of: Handle<Function>, result: &str) -> String {
        let Packed { binding, ty, writes } = packed;
        let pointer = self.dialect.pointer(self.module().global_variables[binding].space);
        let name = self.names.of(NameKey::GlobalVariable(binding));
        let argument = |at: u32| self.names.of(NameKey::FunctionArgument(of, at));
        match writes {
            false => format!("    return ({result})((({pointer}const {ty} *){name})[{}]);\n", argument(0)),
            true => format!("    (({pointer}{ty} *){name})[{}] = ({ty}){};\n", argument(0), argument(1)),
        }
    }

    pub(super) fn handle_name(&mut self, handle: Handle<naga::Type>) -> Outcome<String> {
        let ty = self.c_type(handle)?;
        self.type_name(ty)
    }

    /// The globals that a function or what it calls uses, in the order of the module.
    pub(super) fn used(&self, info: &naga::valid::FunctionInfo) -> Vec<Handle<GlobalVariable>> {
        let globals = self.module().global_variables.iter();
        globals.map(|(handle, _)| handle).filter(|&handle| !info[handle].is_empty()).collect()
    }

    /// A global's parameters: of a function, or, without one, of the kernel itself.
    fn global_params(
        &mut self,
        handle: Handle<GlobalVariable>,
        of: Option<Handle<Function>>,
    ) -> Outcome<Vec<(String, Option<Param>)>> {
        let kernel = of.is_none();
        let global = &self.module().global_variables[handle];
        let name = self.names.of(NameKey::GlobalVariable(handle)).to_string();
        let pointer = self.dialect.pointer(global.space);
        let binding = global.binding.map_or(0, |b| b.binding);
        Ok(match global.space {
            AddressSpace::Storage { access } => {
                let fixed = if access.contains(naga::StorageAccess::STORE) { "" } else { "const " };
                let ty = self.pointee(global.ty)?;
                let mut params =
                    vec![(format!("{pointer}{fixed}{ty} *{name}"), Some(Param::Storage { binding }))];
                if let Some((offset, stride)) = self.tail(global.ty).filter(|_| self.lengths) {
                    let param = Param::Length { binding, offset, stride };
                    params.push((format!("uint {name}_len"), Some(param)));
                }
                params
            }
            AddressSpace::Uniform if self.is_flat(handle) => {
                let TypeInner::Struct { members, .. } = &self.module().types[global.ty].inner else {
                    return refuse("a uniform buffer of another type");
                };
                let mut params = Vec::new();
                for (at, name) in self.flat_members(handle, of) {
                    let member = &members[at as usize];
                    let (bytes, offset) = (self.bytes(member.ty), member.offset);
                    let text = format!("{} {name}", self.handle_name(member.ty)?);
                    params.push((text, Some(Param::Uniform { binding, offset, bytes })));
                }
                params
            }
            AddressSpace::Uniform if kernel => {
                let (bytes, offset) = (self.bytes(global.ty), 0);
                let ty = self.handle_name(global.ty)?;
                vec![(format!("{ty} {name}_value"), Some(Param::Uniform { binding, offset, bytes }))]
            }
            AddressSpace::Uniform => {
                vec![(format!("{pointer}const {} *{name}", self.handle_name(global.ty)?), None)]
            }
            AddressSpace::Private | AddressSpace::WorkGroup if kernel => Vec::new(),
            AddressSpace::Private | AddressSpace::WorkGroup => {
                vec![(format!("{pointer}{} *{name}", self.handle_name(global.ty)?), None)]
            }
            other => return refuse(format!("the address space {other:?}")),
        })
    }

    /// Whether a uniform buffer's members are passed one by one.
    pub(super) fn is_flat(&self, global: Handle<GlobalVariable>) -> bool {
        self.flat.keys().any(|(of, _)| *of == global)
    }

    /// The members of such a buffer that a function needs, or the kernel, and what they are called.
    fn flat_members(
        &self,
        global: Handle<GlobalVariable>,
        by: Option<Handle<Function>>,
    ) -> Vec<(u32, String)> {
        let needs = by.and_then(|by| self.needs.get(&by));
        let own = self.flat.iter().filter(|(member, _)| {
            member.0 == global && by.is_none_or(|_| needs.is_some_and(|needs| needs.contains(member)))
        });
        own.map(|((_, at), name)| (*at, name.clone())).collect()
    }

    /// What such a member is called.
    pub(super) fn flat_member(&self, global: Handle<GlobalVariable>, at: u32) -> Option<&str> {
        self.flat.get(&(global, at)).map(String::as_str)
    }

    /// How a call of a function passes a global on.
    pub(super) fn passed_on(&self, global: Handle<GlobalVariable>, to: Handle<Function>) -> Vec<String> {
        if self.is_flat(global) {
            return self.flat_members(global, Some(to)).into_iter().map(|(_, name)| name).collect();
        }
        let name = self.names.of(NameKey::GlobalVariable(global)).to_string();
        let has_length = self.lengths && self.tail(self.module().global_variables[global].ty).is_some();
        let length = has_length.then(|| format!("{name}_len"));
        [Some(name), length].into_iter().flatten().collect()
    }

    /// What a pointer to a storage binding points to: for an array without a length its first element.
    fn pointee(&mut self, ty: Handle<naga::Type>) -> Outcome<String> {
        match self.module().types[ty].inner {
            TypeInner::Array { base, size: ArraySize::Dynamic, stride } => Ok(self.element(base, stride)?.0),
            _ => self.handle_name(ty),
        }
    }

    /// Where the array without a length at the end of a type starts, and its stride.
    pub(super) fn tail(&self, ty: Handle<naga::Type>) -> Option<(u32, u32)> {
        match &self.module().types[ty].inner {
            TypeInner::Array { size: ArraySize::Dynamic, stride, .. } => Some((0, *stride)),
            TypeInner::Struct { members, .. } => {
                let last = members.last()?;
                self.tail(last.ty).map(|(offset, stride)| (last.offset + offset, stride))
            }
            _ => None,
        }
    }

    fn entry_point(&mut self, at: usize) -> Outcome<(String, Vec<Param>)> {
        let entry = &self.module().entry_points[at];
        let info = self.checked.info.get_entry_point(at);
        let mut globals = self.used(info);
        globals.sort_by_key(|&g| self.module().global_variables[g].binding.map(|b| (b.group, b.binding)));
        let (mut texts, mut params, mut opening) = (Vec::new(), Vec::new(), String::new());
        for &global in &globals {
            for (text, param) in self.global_params(global, None)? {
                texts.push(text);
                params.extend(param);
            }
            opening.push_str(&self.global_variable(global)?);
            if let Some(start) = self.starts.of.get(&global) {
                let name = self.names.of(NameKey::GlobalVariable(global));
                opening.push_str(&format!("    {name} += {};\n", self.flat[start]));
            }
        }
        if self.bounds == Bounds::Clamped {
            opening.push_str(&self.zeroed(&globals, entry.workgroup_size)?);
        }
        opening.push_str(&self.arguments(at, &entry.function)?);
        let ty = naga::back::FunctionType::EntryPoint(at as u16);
        let body = Body::new(self, &entry.function, info, ty).write(&opening)?;
        let name = self.names.of(NameKey::EntryPoint(at as u16));
        let head = self.dialect.kernel(entry.workgroup_size);
        Ok((format!("{head} {name}({}) {{\n{body}}}\n", texts.join(",\n    ")), params))
    }

    /// What the kernel declares for a global that is no pointer parameter: the name is a pointer all the same, so
    /// that functions and the kernel itself say the same thing.
    fn global_variable(&mut self, handle: Handle<GlobalVariable>) -> Outcome<String> {
        let global = &self.module().global_variables[handle];
        let name = self.names.of(NameKey::GlobalVariable(handle)).to_string();
        let pointer = self.dialect.pointer(global.space);
        Ok(match global.space {
            AddressSpace::Uniform if self.is_flat(handle) => String::new(),
            AddressSpace::Uniform => {
                let ty = self.handle_name(global.ty)?;
                format!("    {pointer}const {ty} *{name} = &{name}_value;\n")
            }
            AddressSpace::Private => {
                let ty = self.c_type(global.ty)?;
                let init = match global.init {
                    Some(init) => self.global_expression(init)?,
                    None => self.zero(ty)?,
                };
                let ty = self.type_name(ty)?;
                format!("    {ty} {name}_value = {init};\n    {pointer}{ty} *{name} = &{name}_value;\n")
            }
            AddressSpace::WorkGroup => {
                let (ty, space) = (self.handle_name(global.ty)?, self.dialect.local_variable());
                format!("    {space}{ty} {name}_value;\n    {pointer}{ty} *{name} = &{name}_value;\n")
            }
            _ => String::new(),
        })
    }

    /// Work-group memory starts as zeros: the items write them together, and wait.
    fn zeroed(&mut self, globals: &[Handle<GlobalVariable>], work_group: [u32; 3]) -> Outcome<String> {
        let mut text = String::new();
        for &handle in globals {
            let global = &self.module().global_variables[handle];
            if global.space != AddressSpace::WorkGroup {
                continue;
            }
            let name = self.names.of(NameKey::GlobalVariable(handle)).to_string();
            let word = match self.bytes(global.ty) % 4 {
                0 => "uint",
                _ => "ushort",
            };
            let pointer = self.dialect.pointer(AddressSpace::WorkGroup);
            let _ = write!(
                text,
                "    for (uint w_i = w_item; w_i < sizeof(*{name}) / sizeof({word}); w_i += w_items)\n        \
                 (({pointer}{word} *){name})[w_i] = 0;\n"
            );
        }
        if text.is_empty() {
            return Ok(text);
        }
        let (item, [x, y, z]) = (self.item_in_group(work_group), work_group);
        let items = format!("    const uint w_item = {item}, w_items = {}u;\n", x * y * z);
        Ok(format!("{items}{text}    {}\n", self.dialect.barrier(false, true)))
    }

    /// An item's number in its group: compilers see that neighbours have neighbouring ones where it is one position.
    fn item_in_group(&self, [x, y, z]: [u32; 3]) -> String {
        let along = [(0, x, 1), (1, y, x), (2, z, x * y)].into_iter().filter(|(_, extent, _)| *extent > 1);
        let terms: Vec<String> = along
            .map(|(dim, _, factor)| {
                let position = self.dialect.position(Position::Local, dim);
                if factor == 1 { position } else { format!("{factor}u * {position}") }
            })
            .collect();
        if terms.is_empty() { "0u".into() } else { terms.join(" + ") }
    }

    /// The entry point's arguments, which are positions, as variables.
    fn arguments(&mut self, at: usize, function: &Function) -> Outcome<String> {
        let mut text = String::new();
        let info = self.checked.info.get_entry_point(at);
        let work_group = self.module().entry_points[at].workgroup_size;
        for (number, argument) in (0..).zip(&function.arguments) {
            let is_used = |(handle, e): (Handle<naga::Expression>, &naga::Expression)| {
                matches!(e, naga::Expression::FunctionArgument(of) if *of == number)
                    && info[handle].ref_count > 0
            };
            if !function.expressions.iter().any(is_used) {
                continue;
            }
            let name = self.names.of(NameKey::EntryPointArgument(at as u16, number)).to_string();
            let ty = self.handle_name(argument.ty)?;
            let value = match (&argument.binding, &self.module().types[argument.ty].inner) {
                (Some(naga::Binding::BuiltIn(built_in)), _) => self.built_in(*built_in, work_group)?,
                (None, TypeInner::Struct { members, .. }) => {
                    let mut values = Vec::new();
                    for member in members {
                        match member.binding {
                            Some(naga::Binding::BuiltIn(built_in)) => {
                                values.push(self.built_in(built_in, work_group)?)
                            }
                            ref other => return refuse(format!("an entry point's argument from {other:?}")),
                        }
                    }
                    self.dialect.compound(&ty, &values.join(", "))
                }
                (other, _) => return refuse(format!("an entry point's argument from {other:?}")),
            };
            let _ = writeln!(text, "    const {ty} {name} = {value};");
            match argument.binding {
                Some(naga::Binding::BuiltIn(BuiltIn::GlobalInvocationId)) => {
                    text.push_str(&self.at_most("get_global_id", [u32::MAX; 3]));
                }
                Some(naga::Binding::BuiltIn(BuiltIn::LocalInvocationId)) => {
                    text.push_str(&self.at_most("get_local_id", work_group.map(|size| size - 1)));
                }
                _ => {}
            }
        }
        Ok(text)
    }

    /// Says how far positions go: in a launch 32 bits, of which nobody launches more, and in a group as far as its size. Positions are
    /// `size_t` in OpenCL C: from this the compilers of processors see that an index made of one moves by one from item to item, and do
    /// not gather elements one by one.
    fn at_most(&mut self, position: &str, last: [u32; 3]) -> String {
        if (self.dialect, self.bounds, self.machine) != (Dialect::OpenClC, Bounds::Guarded, Machine::Cpu) {
            return String::new();
        }
        self.extend(ASSUME);
        let fits = |(dim, last)| format!("W_ASSUME({position}({dim}) <= {last:#x}UL);");
        format!("    {}\n", (0..3).zip(last).map(fits).collect::<Vec<_>>().join(" "))
    }

    fn built_in(&mut self, built_in: BuiltIn, work_group: [u32; 3]) -> Outcome<String> {
        let what = match built_in {
            BuiltIn::GlobalInvocationId => Position::Global,
            BuiltIn::LocalInvocationId => Position::Local,
            BuiltIn::WorkGroupId => Position::Group,
            BuiltIn::NumWorkGroups => Position::Groups,
            BuiltIn::LocalInvocationIndex => return Ok(self.item_in_group(work_group)),
            other => {
                let (item, items) = (self.item_in_group(work_group), work_group.iter().product());
                let Some(text) = self.dialect.in_subgroup(other, &item, items) else {
                    return refuse(format!("{other:?}"));
                };
                if self.dialect == Dialect::OpenClC {
                    self.extend("#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n");
                }
                return Ok(text);
            }
        };
        let ty = self.type_name(CType::Vector(naga::VectorSize::Tri, naga::Scalar::U32))?;
        let parts = [0, 1, 2].map(|dim| self.dialect.position(what, dim));
        Ok(self.dialect.compound(&ty, &parts.join(", ")))
    }

    /// A named constant: small ones in their place, others as a variable outside all functions.
    pub(super) fn constant(&mut self, handle: Handle<naga::Constant>) -> Outcome<String> {
        let constant = &self.module().constants[handle];
        let ty = self.c_type(constant.ty)?;
        let value = self.global_expression(constant.init)?;
        if !matches!(ty, CType::Named(_)) {
            return Ok(value);
        }
        let name = self.names.of(NameKey::Constant(handle)).to_string();
        let (c, space) = (self.type_name(ty)?, self.dialect.constant());
        // Outside functions only plain braces are constant in C.
        let value = value.replace(&format!("({c}){{"), "{");
        self.constants.define(&name, || format!("{space}{c} {name} = {};\n", plain_braces(&value)));
        Ok(name)
    }
}

fn asks_for_lengths(module: &naga::Module) -> bool {
    let functions = module.functions.iter().map(|(_, function)| function);
    let mut all = functions.chain(module.entry_points.iter().map(|entry| &entry.function));
    all.any(|function| {
        function.expressions.iter().any(|(_, e)| matches!(e, naga::Expression::ArrayLength(_)))
    })
}

/// An initialiser without the types in front of its braces.
fn plain_braces(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some(brace) = rest.find('{') {
        let head = &rest[..brace];
        let keep = match head.strip_suffix(')') {
            Some(inner) => inner.rfind('(').unwrap_or(head.len()),
            None => head.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1),
        };
        text.push_str(&head[..keep]);
        text.push('{');
        rest = &rest[brace + 1..];
    }
    text + rest
}

/// Whether a type is a handle to something that is not in memory.
trait HandleLike {
    fn is_handle_like(&self) -> bool;
}

impl HandleLike for TypeInner {
    fn is_handle_like(&self) -> bool {
        matches!(
            self,
            TypeInner::Image { .. } | TypeInner::Sampler { .. } | TypeInner::AccelerationStructure { .. }
        )
    }
}
