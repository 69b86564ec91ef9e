//! The entry point: where a work-item is in the launch, and which elements it takes. What depends on the device and the
//! launch is left to overrides (see `windlass_kernel::shape`); branches on these are gone when the text has been built.

use super::Writer;

/// What an item does.
pub(super) enum Work {
    /// This, where its position is known.
    Here(String),
    /// A call of a function by its name, with these values before its positions, between what is declared and what the
    /// group's items do together.
    Called { declared: String, function: String, given: Vec<String>, together: String },
}

/// What the entry point's form depends on.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    /// What holds where the launch is covered.
    pub(super) covered: &'a [String],
    /// Dimensions that the kernel asks about.
    pub(super) dims: u8,
    /// Positions that the work takes: of so many dimensions.
    pub(super) positions: u8,
    pub(super) subgroups: bool,
    /// What clears the group's memory, as far as it is read before it is written.
    pub(super) clearing: &'a str,
    /// Whether each group goes through a part of the launch, and makes one value of it.
    pub(super) reduces: bool,
}

/// The overrides of every text.
pub(super) const SHAPE: &str = "override dims: u32 = 0u;
override group_x: u32 = 1u;
override group_y: u32 = 1u;
override group_z: u32 = 1u;
override rows: bool = true;
override covered: bool = false;
";

/// Those of texts whose launches have work-groups.
pub(super) const GROUPS: &str = "override local_0: u32 = 1u;
override local_1: u32 = 1u;
override local_2: u32 = 1u;
override group_items: u32 = 1u;
";

/// Those of all others.
pub(super) const EACH: &str =
    "override each: u32 = 1u;\noverride items: u32 = group_x * group_y * group_z;\n";

/// Names that the entry point and the overrides use.
pub(super) const NAMES: &str = "launch block Block item Item group groups local place at rest other first own end e line dims each items rows covered \
    group_x group_y group_z group_at groups_1 groups_2 group_items w_promised subgroup_size subgroup_lane subgroup_id subgroup_count width lane number numbers";

/// What an item knows of its sub-group: the entry point's parameter, the variable that functions see, and WGSL's name.
pub(super) const SUBGROUP_NUMBERS: [(&str, &str, &str); 4] = [
    ("width", "subgroup_size", "subgroup_size"),
    ("lane", "subgroup_lane", "subgroup_invocation_id"),
    ("number", "subgroup_id", "subgroup_id"),
    ("numbers", "subgroup_count", "num_subgroups"),
];

/// The number of a group that is counted along x, and, where a device does not take so many along one dimension, along y.
const GROUP_AT: &str = "        var group_at = group.x;
        if rows { group_at += group.y * groups.x; }
";

/// The same of launches of one dimension in work-groups. The last row may have more than there are.
const ROWS: &str = "        if rows {
            group_id_0 += group.y * groups.x;
            launch_id_0 = group_id_0 * group_x + place.x;
            if group_id_0 >= block.size_0 / local_0 { return; }
        }
";

impl Entry<'_> {
    fn head(&self) -> String {
        let mut positions = "
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(global_invocation_id) launch: vec3<u32>,
    @builtin(local_invocation_id) place: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
"
        .to_string();
        let mut kept = String::new();
        if self.subgroups {
            for (parameter, _, built_in) in SUBGROUP_NUMBERS {
                positions.push_str(&format!("    @builtin({built_in}) {parameter}: u32,\n"));
            }
            kept =
                SUBGROUP_NUMBERS.map(|(parameter, name, _)| format!("    {name} = {parameter};\n")).concat();
        }
        let covered: String =
            self.covered.iter().map(|holds| format!("        w_promised({holds});\n")).collect();
        let covered = match covered.is_empty() {
            true => String::new(),
            false => format!("    if covered {{\n{covered}    }}\n"),
        };
        format!(
            "@compute @workgroup_size(group_x, group_y, group_z)\nfn {}({positions}) {{\n{kept}{covered}",
            self.name
        )
    }

    /// A kernel whose launches have work-groups.
    pub(super) fn of_groups(&self, work: &Work) -> String {
        let declared: String = ["group_id", "local_id", "launch_id"]
            .iter()
            .flat_map(|name| (0..3).map(move |d| format!("    var {name}_{d}: u32 = 0u;\n")))
            .collect();
        // The device's last dimension in use is the launch's first.
        let axes = &["x", "y", "z"][..usize::from(self.dims)];
        let mut along: String = axes
            .iter()
            .rev()
            .enumerate()
            .map(|(d, axis)| {
                // The device's own word for it tells its compiler that neighbours are neighbours.
                format!(
                    "        group_id_{d} = group.{axis};\n        local_id_{d} = place.{axis};\n        \
                     launch_id_{d} = launch.{axis};\n"
                )
            })
            .collect();
        if self.dims == 1 {
            along.push_str(ROWS);
        }
        // Launches are of whole groups.
        let global: String = (0..3)
            .map(|d| {
                format!(
                    "    let global_id_{d} = launch_id_{d};\n    \
                     w_promised(global_id_{d} < block.size_{d});\n"
                )
            })
            .collect();
        let folded: String = (0..3)
            .map(|d| format!("        launch_id_{d} = group_id_{d} * local_{d} + local_id_{d};\n"))
            .collect();
        let clearing = self.clearing;
        let work = match work {
            Work::Here(body) => body.clone(),
            Work::Called { declared, function, given, together } => {
                let positions = ["global_id", "local_id", "group_id"];
                let positions = positions.iter().flat_map(|name| (0..3).map(move |d| format!("{name}_{d}")));
                let all: Vec<String> = given.iter().cloned().chain(positions).collect();
                format!("{declared}    {function}({});\n{together}", all.join(", "))
            }
        };
        // Folded, the work-group's items are counted in one dimension, like the groups, and the launch's shape is made of
        // them here. Only where groups are counted along two dimensions can there be more than the launch has. Devices
        // that count along one say so: PoCL (3.1 does) lets the first item decide every branch of a kernel that returns
        // before a barrier.
        format!(
            "{}{declared}    if dims == {}u {{
{along}    }} else {{
{GROUP_AT}        let groups_1 = block.size_1 / local_1;
        let groups_2 = block.size_2 / local_2;
        group_id_0 = group_at / (groups_1 * groups_2);
        group_id_1 = group_at / groups_2 % groups_1;
        group_id_2 = group_at % groups_2;
        if rows {{ if group_id_0 >= block.size_0 / local_0 {{ return; }} }}
        local_id_0 = local / (local_1 * local_2);
        local_id_1 = local / local_2 % local_1;
        local_id_2 = local % local_2;
{folded}    }}
{global}{clearing}{work}}}
",
            self.head(),
            self.dims
        )
    }

    /// A kernel whose items are independent.
    pub(super) fn of_range(&self, work: &Work) -> String {
        let none = (String::new(), String::new(), Vec::new(), String::new());
        let (declared, function, given, together) = match work {
            Work::Called { declared, function, given, together } => (declared, function, given, together),
            // Its work is always a function.
            Work::Here(_) => (&none.0, &none.1, &none.2, &none.3),
        };
        let call = |positions: [&str; 3]| {
            let positions = positions.iter().take(usize::from(self.positions));
            let all: Vec<String> = given.iter().cloned().chain(positions.map(ToString::to_string)).collect();
            format!("{function}({});", all.join(", "))
        };
        let along = match (self.dims, self.reduces) {
            (1, true) => Self::shared(&call),
            (1, false) => Self::line(&call),
            (2, _) => Self::plane(&call),
            _ => Self::space(&call),
        };
        let folded = call(["at / rest", "at / block.size_2 % block.size_1", "at % block.size_2"]);
        format!(
            "{}{declared}    if dims == {}u {{
{along}    }} else {{
{GROUP_AT}        let at = group_at * group_x + local;
        let rest = block.size_1 * block.size_2;
        if at < block.size_0 * rest {{ {folded} }}
    }}
{together}}}
",
            self.head(),
            self.dims
        )
    }

    /// One dimension: an item's elements are as far from each other as the group is long.
    fn line(call: &impl Fn([&str; 3]) -> String) -> String {
        let (one, other) = (call(["first", "0u", "0u"]), call(["at", "0u", "0u"]));
        // Where groups are neither folded nor take several elements an item, the device's own word for a position tells its
        // compiler that neighbours are neighbours.
        format!(
            "        var own = launch.x;
        if each != 1u {{ own = group.x * (group_x * each) + place.x; }}
        if rows {{
{GROUP_AT}            own = group_at * (group_x * each) + place.x;
        }}
        let first = own;
        if each == 1u {{
            if first < block.size_0 {{ {one} }}
        }} else {{
            for (var e = 0u; e < each; e += 1u) {{
                let at = first + e * group_x;
                if at < block.size_0 {{ {other} }}
            }}
        }}
"
        )
    }

    /// One dimension, of which each group takes a part in one piece. Four elements at a time: their loads do not wait for
    /// each other.
    fn shared(call: &impl Fn([&str; 3]) -> String) -> String {
        let at = |n: u32| match n {
            0 => call(["at", "0u", "0u"]),
            1 => call(["at + group_x", "0u", "0u"]),
            n => call([&format!("at + {n}u * group_x"), "0u", "0u"]),
        };
        let four: String = (0..4).map(|n| format!("            {}\n", at(n))).collect();
        format!(
            "{GROUP_AT}        let line = ((block.size_0 - 1u) / (groups.x * groups.y * group_x) + 1u) * group_x;
        let first = group_at * line;
        let end = min(first + line, block.size_0);
        var at = first + place.x;
        for (; at + 3u * group_x < end; at += 4u * group_x) {{
{four}        }}
        for (; at < end; at += group_x) {{ {} }}
",
            at(0)
        )
    }

    /// Two dimensions: an item's rows follow each other.
    fn plane(call: &impl Fn([&str; 3]) -> String) -> String {
        Self::following("        let column = launch.x;\n", "y", "column < block.size_1", |at| {
            call([at, "column", "0u"])
        })
    }

    /// Three dimensions, likewise.
    fn space(call: &impl Fn([&str; 3]) -> String) -> String {
        let position = "        let column = launch.x;\n        let row = launch.y;\n";
        Self::following(position, "z", "(row < block.size_1) & (column < block.size_2)", |at| {
            call([at, "row", "column"])
        })
    }

    fn following(position: &str, axis: &str, inside: &str, call: impl Fn(&str) -> String) -> String {
        let (one, other) = (call("first"), call("at"));
        format!(
            "{position}        let first = launch.{axis} * each;
        if {inside} {{
            if each == 1u {{
                if first < block.size_0 {{ {one} }}
            }} else {{
                for (var e = 0u; e < each; e += 1u) {{
                    let at = first + e;
                    if at < block.size_0 {{ {other} }}
                }}
            }}
        }}
"
        )
    }
}

impl Writer<'_> {
    /// An item's work as a function of its own, which may return early.
    pub(super) fn called(&mut self, form: &Entry<'_>, body: &str) -> Work {
        let function = self.unique(&format!("{}_item", form.name));
        let params: Vec<String> = (0..form.positions).map(|d| format!("global_id_{d}: u32")).collect();
        self.functions.text.push_str(&format!("fn {function}({}) {{\n{body}}}\n\n", params.join(", ")));
        Work::Called { declared: String::new(), function, given: Vec::new(), together: String::new() }
    }
}
