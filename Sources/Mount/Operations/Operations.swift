import CFuse
import Glibc
import SystemCalls

// libfuse's table of handlers. Each finds the driver and calls its method of the same name. Left
// out on purpose: locks and flock (the kernel's own are complete), flush (writes have reported
// their errors), access (the kernel checks permissions), poll, bmap.
func operations() -> fuse_lowlevel_ops {
    var table = fuse_lowlevel_ops()
    addNames(&table)
    addRemoving(&table)
    addAttributes(&table)
    addDirectories(&table)
    addData(&table)
    return table
}

private func addNames(_ table: inout fuse_lowlevel_ops) {
    table.`init` = { driver, connection in
        Unmanaged<Driver>.fromOpaque(driver!).takeUnretainedValue().negotiate(connection!)
    }
    table.lookup = { raw, parent, name in
        let request = Request(raw)
        request.driver.lookup(request, in: parent, name!)
    }
    table.forget = { raw, id, count in
        let request = Request(raw)
        request.driver.forget(id, count)
        fuse_reply_none(request.raw)
    }
    table.forget_multi = { raw, count, forgotten in
        let request = Request(raw)
        for index in 0..<count {
            request.driver.forget(forgotten![index].ino, forgotten![index].nlookup)
        }
        fuse_reply_none(request.raw)
    }
    table.mknod = { raw, parent, name, mode, device in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if driver.arbitration.isQuiet {
            return driver.mknod(request, in: parent, name!, mode: mode, device: device)
        }
        driver.makeWithClaim(request, in: parent, name!) {
            driver.mknod(request, in: parent, $0, mode: mode, device: device)
        }
    }
    table.mkdir = { raw, parent, name, mode in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if driver.arbitration.isQuiet {
            return driver.mkdir(request, in: parent, name!, mode: mode)
        }
        driver.makeWithClaim(request, in: parent, name!) {
            driver.mkdir(request, in: parent, $0, mode: mode)
        }
    }
    table.symlink = { raw, target, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if driver.arbitration.isQuiet {
            return driver.symlink(request, to: target!, in: parent, name!)
        }
        let copy = terminated(target!)
        driver.makeWithClaim(request, in: parent, name!) { name in
            copy.asCString { driver.symlink(request, to: $0, in: parent, name) }
        }
    }
    table.link = { raw, id, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        request.driver.beginLink(request, id, in: parent, name!)
    }
}

private func addRemoving(_ table: inout fuse_lowlevel_ops) {
    table.unlink = { raw, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if VersionNodes.isVirtual(parent) { return driver.settle(request, in: parent, name!) }
        if driver.arbitration.isQuiet { return driver.unlink(request, in: parent, name!) }
        driver.unlinkWithClaim(request, in: parent, name!)
    }
    table.rmdir = { raw, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if VersionNodes.isVirtual(parent) {
            return driver.settleDirectory(request, in: parent, name!)
        }
        if driver.arbitration.isQuiet { return driver.rmdir(request, in: parent, name!) }
        driver.rmdirWithClaim(request, in: parent, name!)
    }
    table.rename = { raw, parent, name, newParent, newName, flags in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        let (from, to) = ((parent, name!), (newParent, newName!))
        if VersionNodes.isVirtual(parent) {
            return driver.renameVersion(request, from, to, flags: flags)
        }
        driver.beginRename(request, from, to, flags: flags)
    }
}

private func addAttributes(_ table: inout fuse_lowlevel_ops) {
    table.getattr = { raw, id, _ in
        let request = Request(raw)
        request.driver.getattr(request, id)
    }
    table.setattr = { raw, id, values, which, open in
        let request = Request(raw)
        // A file that was open for writing before may still be changed by its descriptor.
        if open == nil, request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        let (wanted, handle) = (values!.pointee, open?.pointee.fh)
        if driver.arbitration.isQuiet {
            return driver.setattr(request, id, wanted, which: which, handle: handle)
        }
        driver.changeWithClaim(request, id, size: which & FUSE_SET_ATTR_SIZE != 0) {
            driver.setattr(request, id, wanted, which: which, handle: handle)
        }
    }
    table.readlink = { raw, id in
        let request = Request(raw)
        request.driver.readlink(request, id)
    }
    table.statfs = { raw, _ in
        let request = Request(raw)
        request.driver.statfs(request)
    }
    table.getxattr = { raw, id, name, size in
        let request = Request(raw)
        request.driver.getxattr(request, id, name!, size: size)
    }
    table.setxattr = { raw, id, name, value, size, flags in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        let bytes = UnsafeRawBufferPointer(start: value, count: size)
        if driver.arbitration.isQuiet {
            return driver.setxattr(request, id, name!, bytes, flags: flags)
        }
        let (name, copy) = (terminated(name!), Array(bytes))
        driver.changeWithClaim(request, id, size: false) {
            copy.withUnsafeBytes { bytes in
                name.asCString { driver.setxattr(request, id, $0, bytes, flags: flags) }
            }
        }
    }
    table.listxattr = { raw, id, size in
        let request = Request(raw)
        request.driver.listxattr(request, id, size: size)
    }
    table.removexattr = { raw, id, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if driver.arbitration.isQuiet { return driver.removexattr(request, id, name!) }
        let copy = terminated(name!)
        driver.changeWithClaim(request, id, size: false) {
            copy.asCString { driver.removexattr(request, id, $0) }
        }
    }
}

private func addDirectories(_ table: inout fuse_lowlevel_ops) {
    table.opendir = { raw, id, open in
        let request = Request(raw)
        request.driver.opendir(request, id, open!)
    }
    table.readdir = { raw, id, size, offset, open in
        let request = Request(raw)
        request.driver.readdir(
            request, open!.pointee.fh, size: size, offset: Int64(offset), plus: false)
    }
    table.readdirplus = { raw, id, size, offset, open in
        let request = Request(raw)
        request.driver.readdir(
            request, open!.pointee.fh, size: size, offset: Int64(offset), plus: true)
    }
    table.releasedir = { raw, _, open in
        let request = Request(raw)
        _ = request.driver.streams.remove(open!.pointee.fh)
        request.done()
    }
    table.fsyncdir = { raw, _, dataOnly, open in
        let request = Request(raw)
        request.driver.fsyncdir(request, open!.pointee.fh, dataOnly: dataOnly)
    }
}

private func addData(_ table: inout fuse_lowlevel_ops) {
    table.open = { raw, id, open in
        let request = Request(raw)
        let changes = open!.pointee.flags & (O_ACCMODE | O_TRUNC) != O_RDONLY
        if changes, request.isRefusedAsReadOnly() { return }
        request.driver.open(request, id, flags: open!.pointee.flags)
    }
    table.create = { raw, parent, name, mode, open in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        let flags = open!.pointee.flags
        if driver.arbitration.isQuiet {
            return driver.create(request, in: parent, name!, mode: mode, flags: flags)
        }
        driver.makeWithClaim(request, in: parent, name!) {
            driver.create(request, in: parent, $0, mode: mode, flags: flags)
        }
    }
    table.release = { raw, _, open in
        let request = Request(raw)
        request.driver.release(request, open!.pointee.fh)
    }
    table.read = { raw, id, size, offset, open in
        let request = Request(raw)
        request.driver.read(request, id, open!.pointee.fh, size: size, offset: Int64(offset))
    }
    table.write = { raw, _, bytes, size, offset, open in
        let request = Request(raw)
        // Uses the present flags of the program's descriptor, which fcntl(2) may have changed. What
        // a mapping has written stays at its offset.
        let appends = open!.pointee.flags & O_APPEND != 0 && open!.pointee.writepage == 0
        request.driver.write(
            request, open!.pointee.fh, UnsafeRawBufferPointer(start: bytes, count: size),
            at: appends ? .end : .offset(Int64(offset)))
    }
    table.fsync = { raw, _, dataOnly, open in
        let request = Request(raw)
        request.driver.fsync(request, open!.pointee.fh, dataOnly: dataOnly)
    }
    table.fallocate = { raw, _, mode, offset, length, open in
        let request = Request(raw)
        request.driver.fallocate(
            request, open!.pointee.fh, mode: mode, offset: Int64(offset), length: Int64(length))
    }
    table.lseek = { raw, _, offset, whence, open in
        let request = Request(raw)
        request.driver.lseek(request, open!.pointee.fh, offset: Int64(offset), whence: whence)
    }
    table.copy_file_range = { raw, _, from, source, _, to, target, length, _ in
        let request = Request(raw)
        request.driver.copy(
            request, (source!.pointee.fh, Int64(from)), (target!.pointee.fh, Int64(to)),
            length: length)
    }
    table.ioctl = { raw, id, command, _, open, _, bytes, count, outCount in
        let request = Request(raw)
        request.driver.ioctl(
            request, id, command: command, UnsafeRawBufferPointer(start: bytes, count: count),
            outCount: outCount)
    }
}
