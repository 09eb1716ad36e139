// swift-tools-version: 6.2
// The manifest is the diagram: targets stand in the order in which they may depend on each other,
// a comment a layer. Tests/TidyTests keeps the arrows pointing one way.

import PackageDescription

// The machine: C as Swift sees it, and system calls with typed errors.
let machine: [Target] = [
    .systemLibrary(name: "CFuse", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
    .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .target(name: "CLinux"),
    .target(name: "SystemCalls", dependencies: ["CLinux"]),
]

/// Also when debugging: its tests run half a million schedules.
let optimized: [SwiftSetting] = [.unsafeFlags(["-O"], .when(configuration: .debug))]

// Words: values only, no I/O.
let words: [Target] = [
    .target(name: "Model"),
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
    .target(
        name: "Volume",
        dependencies: [
            "ChunkStore", "Journal", "Model", "SystemCalls", "CLinux",
            .product(name: "Logging", package: "swift-log"),
        ])
]

// Edges: the kernel on one side, the control socket on the other.
let edges: [Target] = [
    .target(
        name: "Mount",
        dependencies: [
            "Volume", "Coordination", "Model", "SystemCalls", "CFuse", "CLinux",
            .product(name: "Logging", package: "swift-log"),
        ]),
    .target(
        name: "Control",
        dependencies: [
            "Model", "SystemCalls", "CLinux", .product(name: "Logging", package: "swift-log"),
        ]),
    .target(name: "FileCoordination", dependencies: ["Control", "Model"]),
]

// Programs: arguments and printing.
let programs: [Target] = [
    .executableTarget(
        name: "concord",
        dependencies: [
            "Control", "Mount", "Volume", "Coordination", "Model", "SystemCalls", "CLinux",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "Logging", package: "swift-log"),
        ]),
    .executableTarget(
        name: "fsctl",
        dependencies: [
            "Control", "Volume", "Model", "SystemCalls", "CLinux",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
        ]),
]

let tests: [Target] = [
    .target(
        name: "Support", dependencies: ["Control", "SystemCalls", "CLinux", "Model"],
        path: "Tests/Support"),
    .testTarget(name: "ModelTests", dependencies: ["Model"]),
    .testTarget(
        name: "CoordinationTests", dependencies: ["Coordination", "Model", "Support"],
        swiftSettings: optimized),
    .testTarget(name: "ChunkStoreTests", dependencies: ["ChunkStore", "Model", "Support"]),
    .testTarget(name: "JournalTests", dependencies: ["Journal", "Model", "Support"]),
    .testTarget(
        name: "VolumeTests",
        dependencies: [
            "Volume", "CLinux", "Journal", "ChunkStore", "Model", "SystemCalls", "Support",
        ]),
    .testTarget(
        name: "MountTests",
        dependencies: [
            "Mount", "Volume", "Control", "CFuse", "CLinux", "Model", "SystemCalls", "Support",
        ]),
    .testTarget(
        name: "CommandTests",
        dependencies: [
            "concord", "fsctl", "Control", "Model", "SystemCalls", "CLinux", "Support",
            .product(name: "Logging", package: "swift-log"),
        ]),
    // What real processes do in the tests of turns, by the public library alone.
    .executableTarget(
        name: "turns-program", dependencies: ["FileCoordination"], path: "Tests/TurnProgram"),
    .testTarget(
        name: "FileCoordinationTests",
        dependencies: [
            "FileCoordination", "turns-program", "concord", "Control", "Model", "CLinux", "Support",
            .product(name: "Logging", package: "swift-log"),
        ]),
    .testTarget(name: "TidyTests"),
]

let package = Package(
    name: "concord",
    products: [
        .library(name: "FileCoordination", targets: ["FileCoordination"]),
        .executable(name: "concord", targets: ["concord"]),
        .executable(name: "fsctl", targets: ["fsctl"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    ],
    targets: machine + words + keeping + volume + edges + programs + tests,
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
