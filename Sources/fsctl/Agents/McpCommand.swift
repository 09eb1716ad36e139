import ArgumentParser
import Control
import Glibc

struct McpCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mcp",
        abstract: "Serve a folder to an agent, as a server of the Model Context Protocol.",
        discussion: """
            It reads requests from standard input and answers on standard output, one JSON object \
            a line. Its tools list, read, write, claim, merge and rewind documents of that folder, \
            with the permissions of the user who runs it. A write names the version that it was \
            made from, so nothing that others save is lost.

            For an agent that reads a file of servers:
              {"mcpServers": {"documents": {"command": "fsctl", "args": ["mcp", "/mnt/documents"],
                "env": {"CONCORD_SESSION": "agent-7"}}}}

            CONCORD_SESSION names the agent's session in the history; fsctl rewind --by undoes it.
            """)

    @Argument(help: "A folder on a volume. Default: the working directory.", completion: .directory)
    var folder: String = "."

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        var server = AgentServer(tools: try AgentTools(root: RawArgument.path(folder)))
        server.run()
    }
}
