import Foundation
import Glibc
import Support
import Testing

/// Versions keep the owner and the permissions that their document had.
@Suite("Owners of versions", .enabled(if: geteuid() == 0, "acting as other users takes root"))
struct OwnedVersionTests {
    /// Runs a script as root, in which `as UID COMMAND…` acts as another user.
    @discardableResult
    private func script(_ volume: MountedVolume, _ text: String) throws -> String {
        var command = Command(
            "/bin/bash", "-ec",
            """
            PATH='\(Programs.directory):/usr/bin:/bin'
            # Others come as far as the volume.
            chmod 711 ..
            as() {
                local user=$1; shift
                setpriv --reuid=$user --regid=$user --clear-groups "$@"
            }
            no() { if "$@" 2>/dev/null; then echo "was allowed: $*"; fi; }
            saved() { fsctl wait --durable disk .; }
            # The contents of all versions that a user finds, oldest first.
            past() { as $1 sh -c "cat $2/* 2>/dev/null" || true; }
            \(text)
            """)
        command.directory = volume.path
        return try command.succeed()
    }

    @Test("a file that replaces another user's file does not show that user's versions")
    func replaced() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 077
                as 1001 sh -c 'echo secret > diary'; saved
                as 1002 sh -c 'echo mine > new; chmod 644 new; mv new diary'; saved
                as 1002 chmod 644 diary; saved
                for user in 1001 1002 1003; do
                    echo "$user: $(past $user .versions/diary | xargs)" \\
                        "$(as $user ls .versions/diary | wc -l)" \\
                        $(as $user fsctl versions diary --json | grep -o '"number":[0-9]*')
                done
                no as 1002 fsctl show diary 1; no as 1003 fsctl show diary 1
                no as 1002 fsctl forget diary 1; no as 1002 fsctl name diary 1 x
                as 1001 fsctl show diary 1
                cat .versions/diary/* | xargs
                """)
            #expect(
                said == """
                    1001: secret mine 2 "number":1 "number":2
                    1002: mine 1 "number":2
                    1003: mine 1 "number":2
                    secret
                    secret mine

                    """)
        }
    }

    @Test("the same for past directories, resolved and deleted versions") func past() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 077; mkdir -m 777 d
                as 1001 sh -c 'echo secret > d/diary; echo gone > d/gone'
                as 1001 sh -c 'echo open > d/open; chmod 644 d/open; umask 022; echo all > d/all'
                saved
                sleep 1; then=$(date '+%Y-%m-%d %H:%M:%S'); sleep 1
                as 1001 rm d/gone d/all
                as 1002 sh -c 'echo mine > d/new; chmod 644 d/new; mv d/new d/diary'; saved
                for user in 1001 1002; do
                    echo "now: $(as $user ls "d/.versions/@$then" | xargs)."
                    echo "read: $(as $user sh -c "cd 'd/.versions/@$then'; cat diary open" \\
                        2>/dev/null | xargs)."
                    echo "deleted: $(past $user d/.versions/gone) $(past $user d/.versions/all)."
                    echo "listed: $(as $user fsctl versions --deleted d --json \\
                        | grep -o '"name":"[a-z]*"' | sort | xargs)."
                done
                """)
            #expect(
                said == """
                    now: all diary gone open.
                    read: secret open.
                    deleted: gone all.
                    listed: name:all name:gone.
                    now: open.
                    read: open.
                    deleted:  .
                    listed: .

                    """, "\(said)")
        }
    }

    @Test("a past directory admits only who may search its directory now") func search() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 022; mkdir listed listed/below listed/acl listed/gone
                for d in . below acl gone; do echo secret > listed/$d/a; done; saved
                sleep 1; then=$(date '+%Y-%m-%d %H:%M:%S'); sleep 1
                see() { as $1 cat "listed/.versions/@$then/$2/a" 2>/dev/null || echo -; }
                echo "before: $(see 1002 below) $(see 1002 acl) $(see 1002 gone)"
                chmod 744 listed/below
                # The group may not search, and the mask, which the mode shows, says that it may.
                chgrp 1002 listed/acl; setfacl -m u:1003:rx,g::-,o::- listed/acl
                rm -r listed/gone; saved
                sleep 1.5
                for user in 1002 1003 0; do
                    echo "$user: $(see $user below) $(see $user acl) $(see $user gone)"
                done
                """)
            #expect(
                said == """
                    before: secret secret secret
                    1002: - - -
                    1003: - secret -
                    0: secret secret secret

                    """, "\(said)")
        }
    }

    @Test("opening a directory opens only what is in it then, not what it had while private")
    func opened() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 022; mkdir -m 700 d; mkdir d/sub theirs; chown 1001 theirs
                setfacl -m u:1001:--- theirs; chmod 700 theirs
                for f in d/a d/gone d/sub/b theirs/c; do echo secret > $f; done; saved
                sleep 1; then=$(date '+%Y-%m-%dT%H:%M:%S'); sleep 1
                echo between > d/sub/b; rm d/gone; saved
                for f in d/a d/sub/b theirs/c; do echo public > $f; done; saved
                chmod 755 d; setfacl -b theirs; chmod 755 theirs; chown 1002 theirs; saved
                sleep 1; later=$(date '+%Y-%m-%dT%H:%M:%S'); sleep 1
                for f in d/a d/sub/b theirs/c; do echo new > $f; done; saved
                show() {
                    echo "$(as $1 ls "$2/.versions/@$then" | xargs)," \\
                        "$(past $1 "$2/.versions/@$then" | xargs)," \\
                        "$(past $1 "$2/.versions/@$later" | xargs)," \\
                        "$(past $1 $2/.versions/$3 | xargs)"
                }
                for user in 1001 0; do
                    echo "$user"
                    show $user d a; show $user d/sub b; show $user theirs c
                    echo "$(as $user cat ".versions/@$then/d/sub/b" 2>/dev/null || echo -)"
                    for place in d theirs; do
                        as $user fsctl rewind $place --to "$then" --dry-run --json \
                            | grep -o '"path":"[^"]*"' | sort | xargs
                    done
                    as $user fsctl versions d/sub/b --json | grep -o '"number":[0-9]*' | xargs
                done
                """)
            #expect(
                said == """
                    1001
                    , , public, public new
                    , , public, public new
                    c, secret, public, secret public new
                    -

                    path:theirs/c
                    number:3 number:4
                    0
                    a gone sub, secret secret, public, secret public new
                    b, secret, public, secret between public new
                    c, secret, public, secret public new
                    secret
                    path:d/a path:d/gone path:d/sub/b
                    path:theirs/c
                    number:1 number:2 number:3 number:4

                    """, "\(said)")
        }
    }

    @Test("a document that is made private has a private history, whoever owns it later")
    func madePrivate() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 022
                as 1001 sh -c 'echo one > a'; saved
                as 1001 sh -c 'echo two > a'; saved
                echo "shown: $(past 1002 .versions/a | xargs)"
                as 1001 chmod 600 a; saved
                echo "private: $(past 1002 .versions/a | xargs)."
                as 1002 sh -c 'echo three > new; mv new a'; saved
                echo "replaced: $(past 1002 .versions/a | xargs)"
                echo "owner: $(past 1001 .versions/a | xargs)"
                """)
            #expect(
                said == """
                    shown: one two
                    private: .
                    replaced: one three
                    owner: one two three

                    """)
        }
    }

    @Test(
        "bytes that were moved aside keep their owner until they are recorded",
        arguments: ["300k", "9M"])
    func stashed(size: String) throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 077
                as 1001 sh -c 'head -c \(size) /dev/zero > a; chmod 602 a'
                as 1002 sh -c 'echo new | dd of=a conv=notrunc status=none'
                chown 1002:1002 a; chmod 644 a; saved
                no as 1002 cat .versions/a/*\\ 1; ls .versions/a | wc -l
                as 1001 ls .versions/a | wc -l; as 1002 ls .versions/a | wc -l
                stat -c %u .versions/a/* | xargs
                """)
            #expect(said == "2\n2\n1\n1001 1002\n")
        }
    }

    /// A version of a package has one owner, and does not say who owned its parts.
    @Test("what somebody keeps private in another user's package is private in its versions")
    func packages() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 022
                look() {
                    for user in 1001 1002 1003; do
                        echo "$user: $(as $user ls .versions/$1.rtfd 2>/dev/null | wc -l)" \\
                            $(as $user sh -c "cat .versions/$1.rtfd/*/*" 2>/dev/null | sort) \\
                            $(as $user fsctl versions $1.rtfd --json 2>/dev/null \\
                                | grep -o '"number":[0-9]*')
                    done
                }
                for name in open private; do
                    as 1001 mkdir $name.rtfd; as 1001 chmod 777 $name.rtfd
                    as 1001 sh -c "echo text > $name.rtfd/TXT.rtf"
                done; saved
                as 1002 sh -c 'echo more > open.rtfd/more.txt'
                as 1002 sh -c 'umask 077; echo secret > private.rtfd/more.txt'
                saved
                look open; look private
                no as 1001 fsctl show private.rtfd 2
                cat .versions/private.rtfd/*/more.txt
                """)
            #expect(
                said == """
                    1001: 2 more text text "number":1 "number":2
                    1002: 2 more text text "number":1 "number":2
                    1003: 2 more text text "number":1 "number":2
                    1001: 1 text "number":1
                    1002: 1 text "number":1
                    1003: 1 text "number":1
                    secret

                    """)
        }
    }

    @Test("a purge removes and counts only versions that the user may see") func purged() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 077; mkdir -m 700 closed; echo a > closed/a; echo b > closed/a
                as 1001 sh -c 'echo secret > diary; echo other > gone'; saved
                as 1002 sh -c 'echo mine > new; chmod 644 new; mv new diary'; saved
                as 1002 sh -c 'echo more > diary; rm -f gone'; saved
                as 1002 fsctl purge --yes --json diary | grep -o '"versions":[0-9]*'
                as 1002 fsctl purge --yes --json . | grep -oE '"(versions|count)":[0-9]+' | xargs
                echo "$(past 1001 .versions/diary | xargs), $(past 1002 .versions/diary | xargs)"
                past 1001 .versions/gone; cat .versions/gone/*
                """)
            #expect(
                said == """
                    "versions":1
                    versions:0
                    secret more, more
                    other
                    other

                    """, "\(said)")
        }
    }

    @Test("access control lists of versions admit the same users") func accessLists() throws {
        try MountedVolume.with { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 022
                as 1001 sh -c 'echo one > a; setfacl -m u:1002:r,u:1003:- a'; saved
                as 1001 sh -c 'echo three > b; setfacl -m u:1002:r,u:1003:- b; mv b a'; saved
                for user in 1001 1002 1003 1004; do
                    echo "$user: $(past $user .versions/a | xargs)."
                done
                """)
            #expect(
                said == """
                    1001: one three.
                    1002: one three.
                    1003: .
                    1004: one three.

                    """)
        }
    }

    @Test("conflicts are listed, read and resolved by users who may see them")
    func conflicts() throws {
        try MountedVolume.with(options: ["list_conflicts"]) { volume in
            let said = try script(
                volume,
                """
                chmod 777 .; umask 022; mkdir -m 700 closed; mkdir -m 777 d
                for file in closed/a d/a; do
                    echo base > $file; chmod 644 $file; saved
                    exec 3>>$file; echo replaced > d/new; mv d/new $file; echo late >&3; exec 3>&-
                done
                as 1001 bash -c 'umask 077; echo base > d/b; fsctl wait --durable disk d/b
                    exec 3>>d/b; echo x > d/n; mv d/n d/b; echo late >&3; exec 3>&-'
                saved; chown 1002 d/b; chmod 644 d/b; saved
                for user in 1001 1002; do
                    echo "$user: $(as $user ls d/.conflicts | xargs)" \\
                        "$(past $user d/.conflicts/a | xargs) $(past $user d/.conflicts/b | xargs)."
                    as $user fsctl conflicts . --json | grep -o '"path":"[^"]*"' | xargs
                done
                no as 1002 fsctl resolve d/b --keep current; no as 1002 fsctl merge d/b
                fsctl conflicts . --json | grep -o '"path":"[^"]*"' | xargs
                """)
            #expect(
                said == """
                    1001: a b base late base late.
                    path:d/a path:d/b
                    1002: a base late .
                    path:d/a
                    path:closed/a path:d/a path:d/b

                    """)
        }
    }

    @Test("a watcher is told no name that its user could not list") func watched() throws {
        try MountedVolume.with { volume in
            let heard = volume.store + ".heard"
            defer { unlink(heard) }
            let said = try script(
                volume,
                """
                chmod 755 .; mkdir -m 700 closed; mkdir open
                # Not by `as`, for it is ended by its number.
                setpriv --reuid=1001 --regid=1001 --clear-groups fsctl watch . > \(heard) &
                watcher=$!
                heard() {
                    for i in $(seq 600); do grep -q $1 \(heard) && return; $2; done; return 1
                }
                beat() { echo x >> open/beat; sleep 0.05; }
                heard open/beat beat
                echo x > closed/secret; mv closed/secret closed/other; cp open/beat closed/third
                mv closed/other open/came; mv open/came closed/hidden; rm closed/third
                echo x > open/last
                heard open/last 'sleep 0.05'
                kill $watcher; wait $watcher || true
                grep -c closed/ \(heard) || true
                grep came \(heard) | sed 's/.*) //; s/.* \\(made\\|removed\\)/\\1/' | xargs
                as 1001 fsctl locks . --json | grep -c closed/ || true
                """)
            #expect(said == "0\nmade open/came removed open/came\n0\n")
        }
    }
}
