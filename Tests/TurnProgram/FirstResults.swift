import FileCoordination
import Foundation

/// Measures how long a query takes until its first results: prints the seconds and the number of
/// items.
enum FirstResults {
    static func measure(_ path: String) async {
        let directory = URL(filePath: path, directoryHint: .isDirectory)
        let began = ContinuousClock.now
        for await update in MetadataQuery(searchScopes: [directory]).updates {
            let taken = ContinuousClock.now - began
            print(taken / .seconds(1), update.results.count)
            break
        }
    }
}
