// swift-tools-version: 6.2
// The manifest is the diagram: targets stand in the order in which they may depend on each other,
// a comment a layer. Tests/TidyTests keeps the arrows pointing one way.

import PackageDescription

// The machine: C as Swift sees it, and system calls with typed errors.
let machine: [Target] = [
    .systemLibrary(name: "CFuse", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
    .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    // With the session extension, for merges; GRDB brings its own way to the same library.
    .systemLibrary(
        name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    // The header of PostgreSQL's client library, which is loaded at run time.
    .target(name: "CPostgres"),
    .target(name: "CLinux"),
    // The kernel's FUSE requests over io_uring.
    .target(name: "CFuseRing"),
    .target(name: "SystemCalls", dependencies: ["CLinux"]),
]

/// Also when debugging: its tests run half a million schedules.
let optimized: [SwiftSetting] = [.unsafeFlags(["-O"], .when(configuration: .debug))]

// Words: values only, no I/O.
let words: [Target] = [
    .target(name: "Model"),
    .target(name: "Reconcile", dependencies: ["Model"], swiftSettings: optimized),
    .target(name: "Coordination", dependencies: ["Model"], swiftSettings: optimized),
]

// Keeping: where bytes and facts lie.
let keeping: [Target] = [
    .target(
        name: "ChunkStore", dependencies: ["Model", "SystemCalls", "CLinux", "CZstd", "CCrypto"]),
    .target(
        name: "Journal",
        dependencies: ["Model", .product(name: "GRDB", package: "GRDB.swift")]),
]

// The volume: one device's documents and their history; knows neither FUSE nor HTTP.
let volume: [Target] = [
    // Three versions of a document into one: knows no volume.
    .target(name: "Merge", dependencies: ["Model", "SystemCalls", "CLinux", "CSQLite"]),
    .target(
        name: "Volume",
        dependencies: [
            "ChunkStore", "Journal", "Model", "SystemCalls", "CLinux",
            .product(name: "Logging", package: "swift-log"),
        ]),
]

// Moving: the hub, and what a device does with it.
let moving: [Target] = [
    .target(name: "HubProtocol", dependencies: ["Model", "Reconcile"]),
    .target(
        name: "Hub",
        dependencies: [
            "HubProtocol", "Reconcile", "Coordination", "ChunkStore", "Model", "SystemCalls",
            "CLinux", "CCrypto",
            .product(name: "GRDB", package: "GRDB.swift"),
            .product(name: "Hummingbird", package: "hummingbird"),
            .product(name: "HummingbirdTLS", package: "hummingbird"),
            .product(name: "Logging", package: "swift-log"),
            .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        ]),
    // What the hub shows in a browser.
    .target(
        name: "HubPages",
        dependencies: [
            "Hub", "HubProtocol", "Reconcile", "ChunkStore", "Model",
            .product(name: "Hummingbird", package: "hummingbird"),
            .product(name: "Mustache", package: "swift-mustache"),
            .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        ],
        // The programs are installed as single files, so what pages consist of is part of them.
        resources: [.embedInCode("Resources"), .embedInCode("Links/Templates")]),
    // The hub's volumes for programs that know WebDAV.
    .target(
        name: "HubWebDAV",
        dependencies: [
            "Hub", "HubProtocol", "Reconcile", "ChunkStore", "Model",
            .product(name: "Hummingbird", package: "hummingbird"),
        ]),
    // The hub's ledger in PostgreSQL.
    .target(name: "HubPostgres", dependencies: ["Hub", "Model", "CPostgres"]),
    // The hub's blobs in S3.
    .target(
        name: "HubS3",
        dependencies: [
            "Hub", "HubProtocol", "ChunkStore", "Model",
            .product(name: "AsyncHTTPClient", package: "async-http-client"),
            .product(name: "Logging", package: "swift-log"),
        ]),
    .target(
        name: "Sync",
        dependencies: [
            "HubProtocol", "Reconcile", "Coordination", "Volume", "Merge", "Journal", "ChunkStore",
            "Model", "SystemCalls", "CLinux",
            .product(name: "AsyncHTTPClient", package: "async-http-client"),
            .product(name: "Logging", package: "swift-log"),
        ]),
]

// Edges: the kernel on one side, the control socket on the other.
let edges: [Target] = [
    .target(
        name: "Mount",
        dependencies: [
            "Volume", "Merge", "Coordination", "Model", "SystemCalls", "CFuse", "CFuseRing",
            "CLinux",
            .product(name: "Logging", package: "swift-log"),
        ]),
    .target(
        name: "Control",
        dependencies: [
            "Model", "SystemCalls", "CLinux", .product(name: "Logging", package: "swift-log"),
        ]),
    .target(
        name: "FileCoordination",
        dependencies: [
            "Control", "Merge", "Model", .product(name: "GRDB", package: "GRDB.swift"),
        ]),
]

// Programs: arguments and printing.
let programs: [Target] = [
    .executableTarget(
        name: "concord",
        dependencies: [
            "Control", "Mount", "Volume", "Sync", "Hub", "HubPages", "HubWebDAV", "HubPostgres",
            "HubS3", "HubProtocol", "Coordination", "Model", "SystemCalls", "CLinux",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "Logging", package: "swift-log"),
        ]),
    .executableTarget(
        name: "fsctl",
        dependencies: [
            "Control", "Volume", "Model", "SystemCalls", "CLinux",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
        ]),
    // What can be made of FileCoordination; nothing else of ours.
    .executableTarget(
        name: "cloud-notes", dependencies: ["FileCoordination"], path: "Sources/CloudNotes"),
    .executableTarget(
        name: "shoebox",
        dependencies: [
            "FileCoordination",
            .product(name: "Hummingbird", package: "hummingbird"),
            .product(name: "Logging", package: "swift-log"),
            .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        ],
        path: "Sources/Shoebox"),
]

let tests: [Target] = [
    .target(
        name: "Support", dependencies: ["Control", "SystemCalls", "CLinux", "Model"],
        path: "Tests/Support"),
    .testTarget(name: "ModelTests", dependencies: ["Model"]),
    .testTarget(
        name: "CoordinationTests", dependencies: ["Coordination", "Model", "Support"],
        swiftSettings: optimized),
    .testTarget(
        name: "ReconcileTests",
        // Its schedules run over the tables of both sides too.
        dependencies: ["Reconcile", "Model", "Support", "Journal", "Sync", "Hub", "HubProtocol"],
        swiftSettings: optimized),
    .testTarget(name: "ChunkStoreTests", dependencies: ["ChunkStore", "Model", "Support"]),
    .testTarget(name: "JournalTests", dependencies: ["Journal", "Model", "Support"]),
    .testTarget(
        name: "MergeTests",
        dependencies: [
            "Merge", "Model", "Support", .product(name: "GRDB", package: "GRDB.swift"),
        ]),
    .testTarget(
        name: "VolumeTests",
        dependencies: [
            "Volume", "CLinux", "Journal", "ChunkStore", "Model", "SystemCalls", "Support",
        ]),
    .testTarget(
        name: "HubTests",
        dependencies: [
            "Hub", "HubPages", "HubWebDAV", "HubPostgres", "HubS3", "HubProtocol", "Reconcile",
            "Coordination", "ChunkStore", "Model", "SystemCalls", "CLinux", "CCrypto",
            "Support",
            .product(name: "AsyncHTTPClient", package: "async-http-client"),
            .product(name: "Logging", package: "swift-log"),
        ]),
    .testTarget(
        name: "SyncTests",
        dependencies: [
            "Sync", "Hub", "HubWebDAV", "HubProtocol", "Reconcile", "Volume", "Journal",
            "ChunkStore", "Model", "SystemCalls", "CLinux", "Control", "FileCoordination",
            "Support", "concord", "fsctl",
            .product(name: "GRDB", package: "GRDB.swift"),
            .product(name: "Logging", package: "swift-log"),
        ]),
    // A mounted volume whose hub is a directory.
    .executableTarget(
        name: "contents-program",
        dependencies: [
            "Mount", "Volume", "Journal", "Model", "SystemCalls", "CLinux",
            .product(name: "Logging", package: "swift-log"),
        ],
        path: "Tests/ContentsProgram"),
    // A disk that can lose its power.
    .executableTarget(
        name: "disk-program", dependencies: ["CFuse", "Support"], path: "Tests/DiskProgram"),
    .testTarget(
        name: "MountTests",
        dependencies: [
            "contents-program", "disk-program", "Mount", "Volume", "Control", "Coordination",
            "CFuse", "CLinux",
            "Journal", "ChunkStore", "Model", "SystemCalls", "Support", "Sync", "concord",
            .product(name: "Logging", package: "swift-log"),
        ]),
    .testTarget(
        name: "CommandTests",
        dependencies: [
            "concord", "fsctl", "Control", "Model", "SystemCalls", "CLinux", "Support",
            .product(name: "Logging", package: "swift-log"),
        ]),
    // What real processes do in the tests of turns, by the public library alone.
    .executableTarget(
        name: "turns-program",
        dependencies: ["FileCoordination", .product(name: "GRDB", package: "GRDB.swift")],
        path: "Tests/TurnProgram"),
    // The program of the article Documents.
    .executableTarget(
        name: "notes-program", dependencies: ["FileCoordination"], path: "Tests/NotesProgram"),
    .testTarget(
        name: "FileCoordinationTests",
        dependencies: [
            "FileCoordination", "turns-program", "notes-program", "concord", "Control", "Model",
            "CLinux", "Support",
            .product(name: "GRDB", package: "GRDB.swift"),
            .product(name: "Logging", package: "swift-log"),
        ]),
    .testTarget(
        name: "CloudNotesTests",
        dependencies: [
            "cloud-notes", "FileCoordination", "concord", "fsctl", "Control", "Model", "Support",
        ]),
    .testTarget(
        name: "ShoeboxTests",
        dependencies: ["shoebox", "concord", "fsctl", "Control", "Model", "Support"]),
    // Breaks everything around real devices and a real hub; judges what they say from outside.
    .executableTarget(
        name: "chaos", dependencies: ["Support", "SystemCalls", "CLinux"],
        path: "Tests/ChaosProgram", swiftSettings: optimized),
    .testTarget(
        name: "ChaosTests",
        dependencies: ["chaos", "concord", "fsctl", "Model", "Reconcile", "Support"]),
    .testTarget(name: "TidyTests"),
]

let package = Package(
    name: "concord",
    products: [
        .library(name: "FileCoordination", targets: ["FileCoordination"]),
        .executable(name: "concord", targets: ["concord"]),
        .executable(name: "fsctl", targets: ["fsctl"]),
        .executable(name: "cloud-notes", targets: ["cloud-notes"]),
        .executable(name: "shoebox", targets: ["shoebox"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(
            url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1", traits: []),
        .package(url: "https://github.com/hummingbird-project/swift-mustache", exact: "2.1.1"),
        .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
        .package(
            url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    ],
    targets: machine + words + keeping + volume + moving + edges + programs + tests,
    swiftLanguageModes: [.v6],
    cLanguageStandard: .gnu17
)

let house: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

for target in package.targets where target.type != .system {
    target.swiftSettings = house + (target.swiftSettings ?? [])
}
