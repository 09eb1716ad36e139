import CFuse
import Glibc
import SystemCalls

// libfuse's table of handlers. Each finds the driver, and calls the type that carries out its group
// of requests. Left out on purpose: locks and flock (the kernel's own are complete), access (the
// kernel checks permissions), poll, bmap.
func operations() -> fuse_lowlevel_ops {
    var table = fuse_lowlevel_ops()
    addNames(&table)
    addRemoving(&table)
    addAttributes(&table)
    addDirectories(&table)
    addData(&table)
    addSyncing(&table)
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
        driver.make(request, in: parent, name!) {
            driver.names.mknod(request, in: parent, $0, mode: mode, device: device)
        }
    }
    table.mkdir = { raw, parent, name, mode in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        driver.make(request, in: parent, name!) {
            driver.names.mkdir(request, in: parent, $0, mode: mode)
        }
    }
    table.symlink = { raw, target, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let (driver, target) = (request.driver, terminated(target!))
        driver.make(request, in: parent, name!) {
            driver.names.symlink(request, to: target, in: parent, $0)
        }
    }
    table.link = { raw, id, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        driver.grantGate.pass(request, in: parent, name!) {
            driver.names.beginLink(request, id, in: parent, $0)
        }
    }
}

private func addRemoving(_ table: inout fuse_lowlevel_ops) {
    table.unlink = { raw, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if VersionNodes.isVirtual(parent) {
            return driver.resolution.unlink(request, in: parent, name!)
        }
        if OwnerFileName.format(of: name!) != nil {
            return driver.ownerFiles.unlink(request, in: parent, name!) {
                driver.unlink(request, in: parent, $0)
            }
        }
        driver.unlink(request, in: parent, name!)
    }
    table.rmdir = { raw, parent, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        if VersionNodes.isVirtual(parent) {
            return driver.resolution.rmdir(request, in: parent, name!)
        }
        driver.remove(request, in: parent, name!) {
            driver.removals.rmdir(request, in: parent, $0)
        }
    }
    table.rename = { raw, parent, name, newParent, newName, flags in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let rename = Rename(
            from: .init(parent, name!), to: .init(newParent, newName!), flags: flags)
        if VersionNodes.isVirtual(parent) {
            return request.driver.resolution.rename(request, rename)
        }
        let driver = request.driver
        if OwnerFileName.format(of: newName!) != nil {
            return driver.ownerFiles.rename(request, rename) {
                driver.renames.begin(request, rename)
            }
        }
        driver.renames.begin(request, rename)
    }
}

private func addAttributes(_ table: inout fuse_lowlevel_ops) {
    table.getattr = { raw, id, _ in
        let request = Request(raw)
        if VersionNodes.isVirtual(id) { return request.driver.versions.getattr(request, id) }
        request.driver.attributes.getattr(request, id)
    }
    table.setattr = { raw, id, values, which, open in
        let request = Request(raw)
        // A file that was open for writing before may still be changed by its descriptor.
        if open == nil, request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        let (wanted, handle) = (values!.pointee, open?.pointee.fh)
        let resizes = which & FUSE_SET_ATTR_SIZE != 0
        if resizes, open == nil, driver.opens.isStale(id, for: request.caller) {
            return request.refuse(.stale)
        }
        let change: @Sendable () -> Void = {
            driver.claims.change(request, id, size: resizes) {
                driver.attributes.setattr(request, id, wanted, which: which, handle: handle)
            }
        }
        guard resizes, handle == nil, driver.grantGate.concerns(request.caller) else {
            return change()
        }
        let names = driver.tree.nodes[id].flatMap { driver.tree.nodes.path(of: $0) }
        driver.grantGate.pass(request, names.map { [.init(names: $0)] } ?? [], change)
    }
    table.readlink = { raw, id in
        let request = Request(raw)
        if VersionNodes.isVirtual(id) { return request.driver.versions.readlink(request, id) }
        request.driver.attributes.readlink(request, id)
    }
    table.statfs = { raw, _ in
        let request = Request(raw)
        request.driver.attributes.statfs(request)
    }
    table.getxattr = { raw, id, name, size in
        let request = Request(raw)
        if VersionNodes.isVirtual(id) {
            return request.driver.versions.getxattr(request, id, name!, size: size)
        }
        request.driver.xattrs.getxattr(request, id, name!, size: size)
    }
    table.setxattr = { raw, id, name, value, size, flags in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let driver = request.driver
        let value = Array(UnsafeRawBufferPointer(start: value, count: size))
        let name = terminated(name!)
        driver.claims.change(request, id, size: false) {
            driver.xattrs.setxattr(request, id, name, value, flags: flags)
        }
    }
    table.listxattr = { raw, id, size in
        let request = Request(raw)
        if VersionNodes.isVirtual(id) {
            // They have no other than those of a document, which are never listed.
            return request.answer { () throws(Errno) in try request.reply(value: [], size: size) }
        }
        request.driver.xattrs.listxattr(request, id, size: size)
    }
    table.removexattr = { raw, id, name in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let (driver, name) = (request.driver, terminated(name!))
        driver.claims.change(request, id, size: false) {
            name.asCString { driver.xattrs.removexattr(request, id, $0) }
        }
    }
}

private func addDirectories(_ table: inout fuse_lowlevel_ops) {
    table.opendir = { raw, id, open in
        let request = Request(raw)
        request.driver.directories.opendir(request, id, open!)
    }
    table.readdir = { raw, id, size, offset, open in
        let request = Request(raw)
        request.driver.directories.readdir(
            request, open!.pointee.fh, size: size, offset: Int64(offset), plus: false)
    }
    table.readdirplus = { raw, id, size, offset, open in
        let request = Request(raw)
        request.driver.directories.readdir(
            request, open!.pointee.fh, size: size, offset: Int64(offset), plus: true)
    }
    table.releasedir = { raw, _, open in
        let request = Request(raw)
        request.driver.directories.releasedir(request, open!.pointee.fh)
    }
    table.fsyncdir = { raw, _, dataOnly, open in
        let request = Request(raw)
        request.driver.directories.fsyncdir(request, open!.pointee.fh, dataOnly: dataOnly)
    }
}

private func addData(_ table: inout fuse_lowlevel_ops) {
    table.open = { raw, id, open in
        let request = Request(raw)
        let flags = open!.pointee.flags
        let changes = flags & (O_ACCMODE | O_TRUNC) != O_RDONLY
        if changes, request.isRefusedAsReadOnly() { return }
        if VersionNodes.isVirtual(id) {
            if changes, request.driver.ownerFiles.openForWriting(request, id) { return }
            return request.driver.versions.open(request, id, flags: flags)
        }
        request.driver.opens.open(request, id, flags: flags)
    }
    table.create = { raw, parent, name, mode, open in
        let request = Request(raw)
        if request.isRefusedAsReadOnly() { return }
        let (driver, flags) = (request.driver, open!.pointee.flags)
        driver.make(request, in: parent, name!) {
            driver.creation.create(request, in: parent, $0, mode: mode, flags: flags)
        }
    }
    table.release = { raw, _, open in
        let request = Request(raw)
        request.driver.opens.release(request, open!.pointee.fh)
    }
    table.read = { raw, id, size, offset, open in
        let request = Request(raw)
        if VersionNodes.isVirtual(id) {
            return request.driver.versions.read(request, id, size: size, offset: Int64(offset))
        }
        request.driver.files.read(request, open!.pointee.fh, size: size, offset: Int64(offset))
    }
    table.write = { raw, _, bytes, size, offset, open in
        let request = Request(raw)
        // Uses the present flags of the program's descriptor, which fcntl(2) may have changed. What
        // a mapping has written stays at its offset.
        let isPage = open!.pointee.writepage != 0
        let appends = open!.pointee.flags & O_APPEND != 0 && !isPage
        let offset = Int64(offset)
        request.driver.files.write(
            request, open!.pointee.fh, UnsafeRawBufferPointer(start: bytes, count: size),
            at: isPage ? .page(offset) : appends ? .end : .offset(offset))
    }
    table.fallocate = { raw, _, mode, offset, length, open in
        let request = Request(raw)
        request.driver.files.fallocate(
            request, open!.pointee.fh, mode: mode, offset: Int64(offset), length: Int64(length))
    }
    table.lseek = { raw, _, offset, whence, open in
        let request = Request(raw)
        request.driver.files.lseek(request, open!.pointee.fh, offset: Int64(offset), whence: whence)
    }
    table.copy_file_range = { raw, _, from, source, _, to, target, length, _ in
        let request = Request(raw)
        request.driver.files.copy(
            request, (source!.pointee.fh, Int64(from)), (target!.pointee.fh, Int64(to)),
            length: length)
    }
    table.ioctl = { raw, id, command, _, open, _, bytes, count, outCount in
        let request = Request(raw)
        request.driver.files.ioctl(
            request, id, command: command, UnsafeRawBufferPointer(start: bytes, count: count),
            outCount: outCount)
    }
}

private func addSyncing(_ table: inout fuse_lowlevel_ops) {
    table.flush = { raw, id, open in
        let request = Request(raw)
        // An old kernel asks for every file.
        if VersionNodes.isVirtual(id) { return request.done() }
        request.driver.files.flush(request, open!.pointee.fh)
    }
    table.fsync = { raw, _, dataOnly, open in
        let request = Request(raw)
        request.driver.files.fsync(request, open!.pointee.fh, dataOnly: dataOnly)
    }
}
