import Foundation
import GRDB

func blob(_ bytes: [UInt8]) -> DatabaseValue { Data(bytes).databaseValue }
