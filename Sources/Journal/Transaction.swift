/// One transaction that writes: everything in it is in the journal after it, or nothing is.
package final class Transaction: Reader {}
