import Glibc
import Model
import SystemCalls

extension VolumeError {
    /// `deed` is the beginning of the sentence: "The pack 00000001.pack cannot be written".
    init(failure error: Errno, _ deed: String) {
        switch error.code {
        case ENOSPC, EDQUOT:
            self.init(.full, "\(deed): \(error). Make room on its disk and try again.")
        case ENOENT, ENOTDIR:
            self.init(.notFound, "\(deed): \(error). Check the path.")
        case EACCES, EPERM:
            self.init(.denied, "\(deed): \(error). Check its owner and its permissions.")
        default:
            self.init(.system, "\(deed): \(error). Check the disk that it is on.")
        }
    }
}
