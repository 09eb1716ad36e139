import CLinux
import Glibc
import Model
import SystemCalls

extension AttributeList {
    /// The attributes of a file that are synchronized; by any descriptor, O_PATH too.
    init(of file: Int32) {
        var names = [CChar](repeating: 0, count: 1024)
        var length = cl_listxattr_fd(file, &names, names.count)
        if length == -Int(ERANGE) {
            names = [CChar](repeating: 0, count: 1 << 16)
            length = cl_listxattr_fd(file, &names, names.count)
        }
        let all = names[..<max(0, length)].split(separator: 0).map {
            $0.map { UInt8(bitPattern: $0) }
        }
        self.init(
            all.filter(AttributeList.isSynchronized).compactMap { name in
                let value = Name(bytes: name).withCString {
                    try? extendedAttribute($0, of: file)
                }
                return value.map { Attribute(name: name, value: $0) }
            })
    }
    /// Sets the attributes on a file as far as it accepts them. Returns whether it accepted any.
    func set(on file: Int32) -> Bool {
        var isSet = false
        for attribute in attributes {
            Name(bytes: attribute.name).withCString { name in
                if (try? setAttribute(name, attribute.value, of: file)) != nil { isSet = true }
            }
        }
        return isSet
    }
}
