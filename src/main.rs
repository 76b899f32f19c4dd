//! The `serin` command. All of it is in the library.

fn main() -> std::process::ExitCode {
    serin::cli::main(std::env::args_os())
}
