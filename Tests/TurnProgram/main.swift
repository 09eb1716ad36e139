import Foundation

// Takes turns as it is told, one command a line on standard input, and says what happens, one JSON
// object a line on standard output. It uses nothing but the public library. Words are separated by
// spaces; `name` is of your choice.
//
//     claim name item… [on=coordinator] [as=presenter] [purpose=text] [by=async|queue] [try]
//                      item: read[+option…]:path or write[+option]:path
//     end name         the accessor returns; throw name: it throws
//     prepare name item… [as=presenter]
//     cancel coordinator
//     present name path|- [hears=message,…] [saves=text] [fails=sentence] [holds=message,…]
//                      [closes] [keeps=sentence]
//     answer name      all that the presenter holds back
//     retire name
//     put path text    a plain write; get path; rename path path; remove path
//     conflicts path   its versions in conflict: identifier, device and text
//     settle path identifier
//     moved coordinator path path: says so
//     edit name path   the presenter of the documentation
//     type name text   into it; text name: what it shows
//     stress name path path rounds: read+write and write+write of both, in a loop
//
// turns-program home DIRECTORY: see Homecoming.
// turns-program unsaved PATH: see Unsaved.
// turns-program documents: see Drafts.
// turns-program query DIRECTORY: see FirstResults.
if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "home" {
    try await Homecoming(CommandLine.arguments[2]).check()
} else if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "unsaved" {
    try await Unsaved.open(CommandLine.arguments[2])
} else if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "query" {
    await FirstResults.measure(CommandLine.arguments[2])
} else if CommandLine.arguments.dropFirst() == ["documents"] {
    await Drafts().obey()
} else {
    let desk = Desk()
    while let line = readLine() {
        let words = line.split(separator: " ").map(String.init)
        if !words.isEmpty { desk.obey(Words(words)) }
    }
}
