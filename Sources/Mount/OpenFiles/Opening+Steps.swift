import SystemCalls
import Volume

// The steps of an open whose contents are present, each on a thread that has the patience for it.
extension Opening {
    /// Opens the file and calls `answer`, or refuses the request.
    func run(
        _ request: Request, _ answer: @escaping @Sendable (Request, Opened) -> Void
    ) throws(Errno) {
        let step: Step
        do throws(Errno) { step = try proceed(.none) } catch {
            abandon()
            throw error
        }
        run(request, step, answer)
    }

    /// Goes on after a step.
    func run(
        _ request: Request, _ step: Step,
        _ answer: @escaping @Sendable (Request, Opened) -> Void
    ) {
        switch step {
        case .opened(let opened): answer(request, opened)
        case .moment:
            // RELEASE is served on another thread, soon after close(2) has returned.
            files.fetcher.retry(
                request, seconds: 0.001, else: { self.abandon() },
                { request in
                    request.answer { () throws(Errno) in try self.run(request, answer) }
                })
        case .needs(let patience):
            let goesOn = OneTimeFlag()
            files.parking.park(
                request, on: Parking.Lane(patience), inLine: line,
                { () throws(Errno) in try self.proceed(patience) },
                revert: { [files] in
                    if case .opened(let opened) = $0 { files.closeHandle(opened.number) }
                },
                finally: { if !goesOn.isSet { self.abandon() } },
                answer: { request, step in
                    goesOn.set()
                    self.run(request, step, answer)
                })
        }
    }
}
