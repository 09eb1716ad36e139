@main struct Fsctl { static func main() {} }
