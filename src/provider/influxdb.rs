//! InfluxDB 2: the `_value` of each row that a Flux query gives, as a list.

use super::{
    http::{Clients, Sent, below, form},
    secret::Secrets,
};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Http, Text},
};

pub(super) async fn ask(
    asked: [&Text; 4],
    http: &Http,
    clients: &Clients,
    secrets: &mut Secrets,
) -> Result<Reply, String> {
    let [address, org, token, query] = asked.map(|text| secrets.text(text));
    let url = below(&address?, &format!("/api/v2/query?{}", form([("org", &*org?)])));
    let headers = vec![
        ("authorization", format!("Token {}", token?)),
        ("content-type", "application/vnd.flux".to_owned()),
        ("accept", "application/csv".to_owned()),
    ];
    let sent = Sent { method: "POST", url, headers, body: query? };
    let body = clients.ask(sent, http, secrets).await?;
    values(&String::from_utf8_lossy(&body)).map(|values| Reply::Value(Answer::List(values)))
}

/// Tables are separated by empty lines, and each begins with a line of names; lines of `#` are about types.
fn values(csv: &str) -> Result<Vec<Answer>, String> {
    let mut values = Vec::new();
    let mut columns: Option<(Option<usize>, Option<usize>)> = None;
    for row in rows(csv) {
        match (&columns, row.as_slice()) {
            (_, [empty]) if empty.is_empty() => columns = None,
            (_, [first, ..]) if first.starts_with('#') => {}
            (None, names) => {
                let at = |name: &str| names.iter().position(|other| other == name);
                columns = Some((at("_value"), at("error")));
            }
            (Some((_, Some(error))), row) => {
                return Err(format!("the query failed: {}", row.get(*error).map_or("", |text| text)));
            }
            (Some((value, None)), row) => values.extend(value.and_then(|at| row.get(at)).map(|text| read(text))),
        }
    }
    Ok(values)
}

fn read(text: &str) -> Answer {
    match text.parse() {
        Ok(number) => Answer::Number(number),
        Err(_) if text.is_empty() => Answer::Nil,
        Err(_) => Answer::Text(text.to_owned()),
    }
}

/// Fields may be quoted, and then hold commas and line ends; a doubled quote is one.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_all_tables_are_read_and_nothing_else() {
        let csv = "#datatype,string,long,double\r\n,result,table,_value,host\r\n,_result,0,0.5,\"a,\"\"b\"\r\n\
                   ,_result,0,3,c\r\n\r\n,result,table,_value\r\n,_result,1,up\r\n,_result,1,\r\n";
        let read = values(csv).unwrap();
        assert_eq!(read, [Answer::Number(0.5), Answer::Number(3.0), Answer::Text("up".to_owned()), Answer::Nil]);
        assert_eq!(values("").unwrap(), []);
        assert_eq!(values("error,reference\nno such bucket,897\n"), Err("the query failed: no such bucket".to_owned()));
    }
}
