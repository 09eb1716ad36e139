/// What surrounds each page.
struct Frame: Sendable {
    let title: String
    let style = Asset.style.address
    let script = Asset.script.address
    let icon = Asset.icon.address
    let icons = Asset.icons.address
    /// The name of the account; nil while nobody is signed in.
    let user: String?
    let token: String?
    let isOwner: Bool
    /// Where the name of the program leads.
    let home: String

    init(title: String, _ session: Session? = nil) {
        self.title = title
        home = session?.visit?.address ?? PagePath.top
        // A visitor of a link is told nothing of the maker's account.
        let session = session?.visit == nil ? session : nil
        user = session?.caller.user
        token = session?.formToken
        isOwner = session?.isOwner ?? false
    }
}
