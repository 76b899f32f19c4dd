//! The reference of the file as Markdown, which `config/reference.md` is.

use super::{any, codes, of};
use crate::config::shape;

const HEAD: &str = "\
# Every field of the config file

Made from the source by the tests; `serin explain FIELD` says the same in the terminal, and `serin schema` gives it to editors.
`[]` is each item of a list, `<name>` a name of your own. `${NAME}`, `${NAME:-default}` and `${NAME:?message}` come from the
environment; `$$` is a dollar.
";

/// The whole reference.
#[must_use]
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    for shape in shape::ALL {
        let title = if shape.path.is_empty() { "The top of the file".to_owned() } else { format!("`{}`", shape.path) };
        text.extend(["\n## ", &title, "\n\n| field | value | without it | what it does |\n|---|---|---|---|\n"]);
        for entry in of(shape) {
            let field = entry.field;
            let without = if field.is_required() { "**required**" } else { field.default };
            let what = format!("{}. Example: `{}: {}`", field.says, field.name, field.example);
            row(&mut text, &[&format!("`{}`", field.name), &any(field.kinds), without, &what]);
        }
    }
    text += "\n## Codes of `serin check`\n\n| code | what it means | what to do |\n|---|---|---|\n";
    for [code, says, remedy] in codes::rows() {
        row(&mut text, &[&format!("`{code}`"), says, remedy]);
    }
    text
}

fn row(text: &mut String, cells: &[&str]) {
    for cell in cells {
        text.extend(["| ", &cell.replace('|', "\\|"), " "]);
    }
    text.push_str("|\n");
}
