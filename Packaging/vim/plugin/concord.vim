" concord.vim: buffers of files on a Concord volume take turns with other programs.
" Vim 9 or Neovim 0.7. See doc/concord.txt.
if exists('g:loaded_concord') || &compatible
  finish
endif
let g:loaded_concord = 1

if !has('nvim') && !(has('job') && has('channel') && has('timers'))
  finish
endif

command! -bar ConcordStatus call concord#status()
command! -bar ConcordConflict call concord#conflict()
command! -bar ConcordKeep call concord#keep()

augroup concord
  autocmd!
  autocmd BufReadPost,BufWritePost,BufFilePost,FileChangedShellPost *
        \ call concord#look(+expand('<abuf>'))
  autocmd BufUnload * call concord#unloaded(+expand('<abuf>'))
  autocmd VimLeavePre * call concord#retire_all()
augroup END
