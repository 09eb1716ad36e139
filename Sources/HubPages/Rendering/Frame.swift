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

    init(title: String, _ session: Session? = nil) {
        self.title = title
        user = session?.caller.user
        token = session?.formToken
        isOwner = session?.isOwner ?? false
    }
}
