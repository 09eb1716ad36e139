import Glibc

/// A first-in, first-out queue between threads; `take` blocks while it is empty.
final class BlockingQueue<Element>: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let filled = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    // The following properties are guarded by the mutex.
    private var elements = ElementQueue<Element>()
    private var isClosed = false

    init() {
        mutex.initialize(to: pthread_mutex_t())
        filled.initialize(to: pthread_cond_t())
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(filled, nil)
    }

    deinit {
        pthread_cond_destroy(filled)
        pthread_mutex_destroy(mutex)
        filled.deallocate()
        mutex.deallocate()
    }

    /// Returns false if the queue is closed.
    @discardableResult
    func put(_ element: Element) -> Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        if isClosed { return false }
        elements.append(element)
        pthread_cond_signal(filled)
        return true
    }

    /// Removes the oldest element; nil when the queue is closed and empty.
    func take() -> Element? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let element = elements.removeFirst() { return element }
            if isClosed { return nil }
            pthread_cond_wait(filled, mutex)
        }
    }

    func close() {
        pthread_mutex_lock(mutex)
        isClosed = true
        pthread_cond_broadcast(filled)
        pthread_mutex_unlock(mutex)
    }
}

/// A first-in, first-out queue. Removing the first element does not move the others each time.
struct ElementQueue<Element> {
    private var elements: [Element] = []
    /// The index of the first element that was not removed.
    private var next = 0

    init() {}

    init(_ element: Element) { elements = [element] }

    var count: Int { elements.count - next }

    mutating func append(_ element: Element) { elements.append(element) }

    /// Returns nil if the queue is empty.
    mutating func removeFirst() -> Element? {
        guard next < elements.count else { return nil }
        defer {
            next += 1
            if next == elements.count || next >= 1024 {
                elements.removeFirst(next)
                next = 0
            }
        }
        return elements[next]
    }
}

extension ElementQueue: Sendable where Element: Sendable {}

extension ElementQueue where Element: Equatable {
    mutating func removeAll(_ element: Element) {
        elements.removeFirst(next)
        next = 0
        elements.removeAll { $0 == element }
    }
}
