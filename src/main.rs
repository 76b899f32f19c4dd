//! temporary
use clap::Parser;
#[derive(Parser)]
enum Verb {
    Run(serin::cli::run::Args),
    Demo(serin::cli::demo::Args),
    Toy(serin::cli::toy::Args),
    Load(serin::cli::load::Args),
    Try(serin::cli::try_::Args),
}
fn main() -> std::process::ExitCode {
    match Verb::parse() {
        Verb::Run(a) => serin::cli::run::run(&a, std::path::Path::new("serin.yaml")),
        Verb::Demo(a) => serin::cli::demo::run(&a),
        Verb::Toy(a) => serin::cli::toy::run(&a),
        Verb::Load(a) => serin::cli::load::run(&a),
        Verb::Try(a) => serin::cli::try_::run(&a),
    }
    .into()
}
