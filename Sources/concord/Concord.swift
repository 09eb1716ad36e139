@main struct Concord { static func main() {} }
