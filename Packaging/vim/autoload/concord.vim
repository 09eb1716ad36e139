" Each buffer whose file is on a volume has a job, `fsctl present --interactive`. The job prints
" what other programs want, as lines of JSON, and reads our answers. All messages go through one
" queue that a timer empties; what Vim does not allow at the moment is tried again, in order.

" Buffer number -> what is known of it:
"   job      of fsctl, or -1 when there is none (any more)
"   path     that is presented
"   turns    of others, between relinquish and reacquire; the value says what was asked last
"   readonly as the user had it, before the first of these turns
"   stale    the file changed, or moved (to), during these turns
"   stamp    time and size of the file as we last read or wrote it
"   last     a sentence for :ConcordStatus
let s:buffers = {}
let s:queue = []
let s:is_draining = 0

let s:hears = 'relinquishToWriter,save,accommodateDeletion,reacquire,changed,moved,'
      \ . 'versionGained,versionResolved'
let s:again_ms = 100
let s:say_ms = 20
let s:move_tries_max = 10
let s:reappear_tries_max = 6
let s:reappear_ms = 300
" Errors by which Vim says "not now": text is locked, the command-line window is open, ...
let s:not_now = '\vE(523|565|11|788|578|1155):|^Concord: not yet'

" Call it when a buffer has a file, or another file than before.
function! concord#look(buf) abort
  if !empty(getbufvar(a:buf, '&buftype')) || empty(bufname(a:buf))
    return
  endif
  let path = resolve(fnamemodify(bufname(a:buf), ':p'))
  if has_key(s:buffers, a:buf)
    let it = s:buffers[a:buf]
    let it.stamp = s:stamp(path)
    if it.path ==# path && s:runs(it)
      return
    endif
    call concord#retire(a:buf)
  endif
  if s:is_possible() && filereadable(path)
    call s:present(a:buf, path)
  endif
endfunction

" Whether any volume is mounted. If not, no program need be started for each file.
function! s:is_possible() abort
  if !executable(s:fsctl())
    return 0
  endif
  try
    return match(readfile('/proc/self/mounts'), 'concord') >= 0
  catch
    return 0
  endtry
endfunction

function! s:fsctl() abort
  return get(g:, 'concord_fsctl', 'fsctl')
endfunction

function! s:stamp(path) abort
  return [getftime(a:path), getfsize(a:path)]
endfunction

" ------------------------------------------------------------------------------------------------
" The job

function! s:present(buf, path) abort
  let it = {'job': -1, 'path': a:path, 'turns': {}, 'readonly': 0, 'stale': {},
        \ 'stamp': s:stamp(a:path), 'last': 'not on a volume', 'half': '', 'presents': 0}
  let s:buffers[a:buf] = it
  let command = [s:fsctl(), 'present', '--interactive', '--process', string(getpid()),
        \ '--hears', s:hears, '--', a:path]
  if has('nvim')
    let it.job = jobstart(command, {
          \ 'on_stdout': {job, lines, _ -> s:hear_pieces(a:buf, job, lines)},
          \ 'on_exit': {job, status, _ -> s:enqueue(a:buf, job, {'kind': 'exit'})}})
  else
    let it.job = job_start(command, {'in_mode': 'raw', 'out_mode': 'nl', 'err_io': 'null',
          \ 'out_cb': {channel, line -> s:hear(a:buf, ch_getjob(channel), line)},
          \ 'close_cb': {channel -> s:enqueue(a:buf, ch_getjob(channel), {'kind': 'exit'})}})
  endif
endfunction

function! s:runs(it) abort
  if type(a:it.job) == v:t_number
    return a:it.job > 0
  endif
  return job_status(a:it.job) ==# 'run'
endfunction

" Neovim passes the received text cut at newlines: the first piece continues the last piece of the
" call before.
function! s:hear_pieces(buf, job, pieces) abort
  if !has_key(s:buffers, a:buf)
    return
  endif
  let it = s:buffers[a:buf]
  let it.half .= a:pieces[0]
  for piece in a:pieces[1:]
    if !empty(it.half)
      call s:hear(a:buf, a:job, it.half)
    endif
    let it.half = piece
  endfor
endfunction

function! s:hear(buf, job, line) abort
  try
    let message = json_decode(a:line)
  catch
    return
  endtry
  call s:enqueue(a:buf, a:job, message)
endfunction

function! s:answer(it, turn, failure) abort
  let line = {'turn': a:turn}
  if !empty(a:failure)
    let line.failure = a:failure
  endif
  if !s:runs(a:it)
    return
  endif
  try
    if has('nvim')
      call chansend(a:it.job, json_encode(line) . "\n")
    else
      call ch_sendraw(a:it.job, json_encode(line) . "\n")
    endif
  catch
    " The job has just ended, and so has the program's wait for our answer.
  endtry
endfunction

" Closing its input ends the job. Then no program waits for this buffer any more.
function! concord#retire(buf) abort
  if !has_key(s:buffers, a:buf)
    return
  endif
  let it = remove(s:buffers, a:buf)
  call s:let_write(a:buf, it)
  if !s:runs(it)
    return
  endif
  if has('nvim')
    call chanclose(it.job, 'stdin')
  else
    call ch_close_in(it.job)
  endif
endfunction

" :edit! unloads a buffer, too, but loads it again at once.
function! concord#unloaded(buf) abort
  call timer_start(0, {-> bufloaded(a:buf) ? 0 : concord#retire(a:buf)})
endfunction

function! concord#retire_all() abort
  for buf in keys(s:buffers)
    call concord#retire(+buf)
  endfor
endfunction

" ------------------------------------------------------------------------------------------------
" The queue

function! s:enqueue(buf, job, message) abort
  call add(s:queue, [a:buf, a:job, a:message])
  if !s:is_draining
    let s:is_draining = 1
    call timer_start(0, function('s:drain'))
  endif
endfunction

function! s:drain(timer) abort
  while !empty(s:queue)
    let [buf, job, message] = s:queue[0]
    let it = get(s:buffers, buf, {})
    if !empty(it) && it.job == job
      try
        call s:take(buf, it, message)
      catch
        if v:exception =~# s:not_now
          call timer_start(s:again_ms, function('s:drain'))
          return
        endif
        call s:tell(buf, v:exception)
        if has_key(message, 'turn') && message.kind !=# 'reacquire'
          call s:answer(it, message.turn, s:plain(v:exception))
        endif
      endtry
    endif
    call remove(s:queue, 0)
  endwhile
  let s:is_draining = 0
endfunction

" Handles one message. It may throw an error of `s:not_now`; then it is called again later.
function! s:take(buf, it, message) abort
  let kind = a:message.kind
  let turn = get(a:message, 'turn', 0)
  if kind ==# 'presenting'
    let a:it.presents = 1
    let a:it.last = 'presented'
    call s:refresh(a:buf, a:it)
  elseif kind ==# 'relinquishToWriter'
    call s:let_go(a:buf, a:it, turn)
    call s:answer(a:it, turn, '')
  elseif kind ==# 'save'
    call s:save(a:buf, a:it, turn)
  elseif kind ==# 'accommodateDeletion'
    call s:accommodate(a:buf, a:it, turn)
  elseif kind ==# 'reacquire'
    call s:reacquire(a:buf, a:it, turn)
  elseif kind ==# 'changed' || kind ==# 'moved'
    let a:it.stale[kind] = get(a:message, 'to', '')
    call s:refresh(a:buf, a:it)
  elseif kind ==# 'versionGained'
    call s:tell(a:buf, 'it has a version in conflict: :ConcordConflict shows both')
  elseif kind ==# 'versionResolved'
    call s:close_settled(a:buf)
    call s:tell(a:buf, empty(s:others(a:buf)) ? 'its conflict is settled' : 'a version is settled')
  elseif kind ==# 'exit'
    call s:ended(a:buf, a:it)
  endif
endfunction

" ------------------------------------------------------------------------------------------------
" What others do

" Another program is about to write. If we saved our text meanwhile, theirs would be overwritten.
function! s:let_go(buf, it, turn) abort
  if empty(a:it.turns)
    let a:it.readonly = getbufvar(a:buf, '&readonly')
  endif
  let a:it.turns[a:turn] = 'relinquish'
  let a:it.last = 'another program writes'
  call setbufvar(a:buf, '&readonly', 1)
endfunction

function! s:let_write(buf, it) abort
  if !empty(a:it.turns)
    let a:it.turns = {}
    call setbufvar(a:buf, '&readonly', a:it.readonly)
  endif
endfunction

function! s:reacquire(buf, it, turn) abort
  if has_key(a:it.turns, a:turn)
    if len(a:it.turns) == 1
      call s:let_write(a:buf, a:it)
    else
      call remove(a:it.turns, a:turn)
    endif
  endif
  let a:it.last = 'presented'
  call s:refresh(a:buf, a:it)
endfunction

function! s:save(buf, it, turn) abort
  let failure = ''
  if bufloaded(a:buf) && getbufvar(a:buf, '&modified')
    let failure = s:objection(a:buf, a:it)
    if empty(failure)
      call s:within(a:buf, 'call concord#write_here(' . !empty(a:it.turns) . ')')
      let a:it.last = 'saved, for another program to read'
      if getbufvar(a:buf, '&modified')
        let failure = 'Vim could not save it.'
      endif
    endif
    if !empty(failure)
      call s:tell(a:buf, 'not saved for another program: ' . failure)
    endif
  endif
  call s:answer(a:it, a:turn, failure)
endfunction

" Returns why the buffer must not be saved without asking the user; empty when it may.
function! s:objection(buf, it) abort
  let readonly = empty(a:it.turns) ? getbufvar(a:buf, '&readonly') : a:it.readonly
  if readonly
    return 'It is opened in Vim for reading only, and changed there.'
  endif
  if getftime(a:it.path) >= 0 && s:stamp(a:it.path) != a:it.stamp
    return 'It was changed both in Vim and by another program.'
  endif
  return ''
endfunction

" Called through `s:within`. It uses `!` because `s:objection` has checked that the file is the one
" that we read.
function! concord#write_here(is_readonly_for_turns) abort
  if a:is_readonly_for_turns
    setlocal noreadonly
  endif
  try
    silent write!
  finally
    if a:is_readonly_for_turns
      setlocal readonly
    endif
  endtry
endfunction

" Updates the buffer after the file has changed or moved, once no other program's turn is open.
function! s:refresh(buf, it) abort
  if !empty(a:it.turns) || empty(a:it.stale) || !bufloaded(a:buf)
    return
  endif
  if has_key(a:it.stale, 'moved')
    let to = a:it.stale.moved
    if type(to) != v:t_string
      call s:tell(a:buf, 'the file was renamed to a name that is not UTF-8')
    else
      " The message may come before the kernel knows the new name.
      let a:it.tries = get(a:it, 'tries', 0) + 1
      if !filereadable(to) && a:it.tries < s:move_tries_max
        throw 'Concord: not yet'
      endif
      let a:it.tries = 0
      " The path is set before renaming, so that concord#look starts no second job for the new name.
      let old = a:it.path
      let a:it.path = to
      try
        call s:within(a:buf, 'call concord#rename_here(' . string(to) . ')')
      catch
        let a:it.path = old
        throw v:exception
      endtry
      call s:tell(a:buf, 'renamed, and so is the buffer')
    endif
  elseif getbufvar(a:buf, '&modified')
    if s:stamp(a:it.path) != a:it.stamp
      call s:tell(a:buf, 'changed on the volume and in this buffer: :write! keeps this text, '
            \ . ':edit! loads the other; both stay as versions')
    endif
  else
    call s:within(a:buf, 'call concord#reload_here()')
  endif
  let a:it.stale = {}
endfunction

function! concord#reload_here() abort
  let [autoread, undoreload] = [&l:autoread, &undoreload]
  setlocal autoread
  set undoreload=-1
  try
    execute 'silent checktime' bufnr('')
  finally
    let [&l:autoread, &undoreload] = [autoread, undoreload]
  endtry
endfunction

" Renames the buffer and keeps its text and its undo history. After :file, Vim takes the file for
" one that it never read, and :write would refuse. Reading the file prevents that (in Neovim,
" writing what was read).
function! concord#rename_here(to) abort
  let view = winsaveview()
  let text = &modified ? getline(1, '$') : []
  let undoreload = &undoreload
  set undoreload=-1
  try
    execute 'silent keepalt file' fnameescape(fnamemodify(a:to, ':~:.'))
    if filereadable(a:to)
      silent edit!
      if has('nvim')
        silent noautocmd write!
        call concord#look(bufnr(''))
      endif
    endif
  finally
    let &undoreload = undoreload
  endtry
  if !empty(text) && getline(1, '$') !=# text
    silent keepjumps %delete _
    call setline(1, text)
  endif
  call winrestview(view)
endfunction

" The file is about to be deleted or replaced by another. The text stays in the buffer.
function! s:accommodate(buf, it, turn) abort
  let a:it.last = 'about to be deleted or replaced'
  let a:it.lost = s:stamp(a:it.path)
  call s:answer(a:it, a:turn, '')
endfunction

" fsctl has ended because the file is not on a volume, was deleted or replaced, or the volume is
" gone.
function! s:ended(buf, it) abort
  call s:let_write(a:buf, a:it)
  let a:it.job = -1
  let a:it.presents = 0
  if has_key(a:it, 'lost')
    call timer_start(s:reappear_ms, {timer -> s:look_again(a:buf, a:it, timer, 1)})
  elseif a:it.last !=# 'not on a volume'
    let a:it.last = 'the volume was unmounted'
  endif
endfunction

function! s:look_again(buf, it, timer, try) abort
  if get(s:buffers, a:buf, {}) isnot a:it || !has_key(a:it, 'lost') || !bufloaded(a:buf)
    return
  endif
  let now = s:stamp(a:it.path)
  if now[0] >= 0 && (now != a:it.lost || a:try >= s:reappear_tries_max)
    " The file was replaced, as many programs save, or was not deleted after all.
    call remove(a:it, 'lost')
    call s:present(a:buf, a:it.path)
    let s:buffers[a:buf].stamp = a:it.stamp
    let s:buffers[a:buf].stale = {'changed': ''}
  elseif a:try < s:reappear_tries_max
    call timer_start(s:reappear_ms, {timer -> s:look_again(a:buf, a:it, timer, a:try + 1)})
  else
    call remove(a:it, 'lost')
    let a:it.last = 'deleted'
    " The flag makes :quit ask.
    call setbufvar(a:buf, '&modified', 1)
    call s:tell(a:buf, 'deleted by another program; its text is still here, :write brings it back')
  endif
endfunction

" ------------------------------------------------------------------------------------------------
" Conflicts

" The paths of the versions that are in conflict with the buffer's file.
function! s:others(buf) abort
  let path = fnamemodify(bufname(a:buf), ':p')
  let directory = fnamemodify(path, ':h') . '/.conflicts/' . fnamemodify(path, ':t')
  return isdirectory(directory) ? map(readdir(directory), {_, name -> directory . '/' . name}) : []
endfunction

" Opens a tab with the buffer and its other versions side by side, as a diff.
function! concord#conflict() abort
  let buf = bufnr('')
  let others = s:others(buf)
  if empty(others)
    echo 'Concord: ' . bufname(buf) . ' is not in conflict'
    return
  endif
  tab split
  let t:concord_conflict = buf
  diffthis
  for path in others
    execute 'rightbelow vertical diffsplit' fnameescape(path)
    setlocal readonly nomodifiable noswapfile bufhidden=wipe
  endfor
  wincmd t
endfunction

" Settles the conflict in favour of what the current window shows. It runs as a job, because fsctl
" waits for this buffer to relinquish the file meanwhile.
function! concord#keep() abort
  let buf = get(t:, 'concord_conflict', bufnr(''))
  let which = 'current'
  if bufnr('') != buf
    let which = matchstr(expand('%:t:r'), '\d\+$')
  endif
  let path = fnamemodify(bufname(buf), ':p')
  let command = [s:fsctl(), 'resolve', path, '--keep', which]
  if has('nvim')
    call jobstart(command, {'on_exit': {job, status, _ -> s:kept(buf, status)}})
  else
    call job_start(command, {'exit_cb': {job, status -> s:kept(buf, status)}})
  endif
endfunction

function! s:kept(buf, status) abort
  if a:status != 0
    call s:tell(a:buf, 'its conflict could not be settled: fsctl resolve says why')
  endif
endfunction

" Closes the windows of versions that are settled, here or elsewhere.
function! s:close_settled(buf) abort
  let open = s:others(a:buf)
  for tab in range(tabpagenr('$'), 1, -1)
    if gettabvar(tab, 'concord_conflict', 0) != a:buf
      continue
    endif
    if empty(open) && tabpagenr('$') > 1
      execute tab . 'tabclose'
      continue
    endif
    for number in range(tabpagewinnr(tab, '$'), 1, -1)
      let shown = fnamemodify(bufname(tabpagebuflist(tab)[number - 1]), ':p')
      if shown =~# '/\.conflicts/' && index(open, shown) < 0
        call win_execute(win_getid(number, tab), 'close')
      endif
    endfor
  endfor
  if empty(open)
    call s:within(a:buf, 'diffoff')
  endif
endfunction

" ------------------------------------------------------------------------------------------------
" Windows and words

" Runs a command with the buffer as the current one.
function! s:within(buf, command) abort
  let windows = win_findbuf(a:buf)
  if a:buf == bufnr('')
    execute a:command
  elseif !empty(windows)
    call win_execute(windows[0], a:command)
  else
    let sizes = winrestcmd()
    noautocmd keepalt keepjumps botright 1split
    try
      execute 'noautocmd keepalt keepjumps hide buffer' a:buf
      execute a:command
    finally
      noautocmd close!
      execute sizes
    endtry
  endif
endfunction

function! s:plain(exception) abort
  return substitute(a:exception, '^Vim\%((\a\+)\)\=:', '', '')
endfunction

function! s:tell(buf, sentence) abort
  if has_key(s:buffers, a:buf)
    let s:buffers[a:buf].last = a:sentence
  endif
  let text = 'Concord: ' . fnamemodify(bufname(a:buf), ':t') . ': ' . s:plain(a:sentence)
  " The message is shown later, because drawing the window would erase it now.
  call timer_start(s:say_ms, {-> s:say(text)})
endfunction

function! s:say(text) abort
  echohl WarningMsg
  echomsg a:text
  echohl None
endfunction

function! concord#status() abort
  if !executable(s:fsctl())
    echo 'Concord: the program ' . s:fsctl() . ' is not installed; see :help concord'
    return
  endif
  if empty(s:buffers)
    echo 'Concord: no buffer shows a file on a volume'
    return
  endif
  for [buf, it] in items(s:buffers)
    echo printf('%s %s: %s%s', +buf == bufnr('') ? '>' : ' ', bufname(+buf),
          \ s:plain(it.last), empty(it.turns) ? '' : ', read-only until it is done')
  endfor
endfunction
