/// A writing transaction: either all of its changes get into the journal, or none.
package final class Transaction: Reader {}
