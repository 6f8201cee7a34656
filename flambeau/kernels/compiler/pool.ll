; The pool's machine code, entered at @$entry; pool.py fills in what depends on the processor, and has the drawing.
;
; The record that threads share, in 8-byte words; what different threads write lies in different cache lines.
;
;    0  ticket
;    8  done: units of the job that are
;   16  job: the kernel, its arguments, units of work, chunks in each of them, all chunks, and whether a kernel met something else than
;       an array
;   24  sleepers: how many workers sleep
;   32  limit: of threads that may run a kernel
;   40  busy: whether there is a job; then whether the next job that a thread does alone goes upwards
;   48  count: of workers
;   56  of this process: the class of arrays, the functions by which a launch lets other Python threads run (two) and raises, the error that
;       it raises, and the error's words

$declaration

; Take units of the present job while there are any, from its front (step 1) or its back (step 65536); the ticket that had none left.
define internal i64 @take(ptr %record, i64 %step) noinline nounwind {
entry:
  %done_at = getelementptr i64, ptr %record, i64 8
  %function_at = getelementptr i64, ptr %record, i64 16
  %arguments_at = getelementptr i64, ptr %record, i64 17
  %units_at = getelementptr i64, ptr %record, i64 18
  %group_at = getelementptr i64, ptr %record, i64 19
  %chunks_at = getelementptr i64, ptr %record, i64 20
  %refused_at = getelementptr i64, ptr %record, i64 21
  %class_at = getelementptr i64, ptr %record, i64 56
  %array_class = load ptr, ptr %class_at, align 8
  %is_back = icmp ne i64 %step, 1
  br label %look
look:
  %ticket = load atomic i64, ptr %record seq_cst, align 8
  %function = load atomic ptr, ptr %function_at acquire, align 8
  %arguments = load atomic ptr, ptr %arguments_at acquire, align 8
  %units = load atomic i64, ptr %units_at acquire, align 8
  %group = load atomic i64, ptr %group_at acquire, align 8
  %chunks = load atomic i64, ptr %chunks_at acquire, align 8
  %front = and i64 %ticket, 65535
  %ticket_up = lshr i64 %ticket, 16
  %back = and i64 %ticket_up, 65535
  %gone = add i64 %front, %back
  %some = icmp ult i64 %gone, %units
  br i1 %some, label %try, label %none
try:
; outside in: as many units from the end as are gone there; inside out: as many from the middle, and then the other half from its far end
  %count = select i1 %is_back, i64 %back, i64 %front
  %units_up = add i64 %units, 1
  %lower = lshr i64 %units_up, 1
  %upper = sub i64 %units, %lower
  %half = select i1 %is_back, i64 %upper, i64 %lower
  %own0 = sub i64 %half, %count
  %own = sub i64 %own0, 1
  %beyond = sub i64 %count, %half
  %final = sub i64 %units, 1
  %other = sub i64 %final, %beyond
  %is_own = icmp ult i64 %count, %half
  %inner = select i1 %is_own, i64 %own, i64 %other
  %turn = and i64 %ticket, 8589934592
  %is_outside_in = icmp eq i64 %turn, 0
  %from_front = select i1 %is_outside_in, i64 %count, i64 %inner
  %from_back = sub i64 %final, %from_front
  %unit = select i1 %is_back, i64 %from_back, i64 %from_front
  %following = add i64 %ticket, %step
  %swap = cmpxchg ptr %record, i64 %ticket, i64 %following seq_cst seq_cst
  %taken = extractvalue { i64, i1 } %swap, 1
  br i1 %taken, label %run, label %look
run:
  %first = mul i64 %unit, %group
  %end = add i64 %first, %group
  %short = icmp ult i64 %chunks, %end
  %last = select i1 %short, i64 %chunks, i64 %end
  %status = call i64 %function(ptr %arguments, i64 %first, i64 %last, ptr %array_class)
  %is_refused = icmp ne i64 %status, 0
  br i1 %is_refused, label %refused, label %ran
refused:
  store atomic i64 1, ptr %refused_at monotonic, align 8
  br label %ran
ran:
  %d = atomicrmw add ptr %done_at, i64 1 acq_rel
  br label %look
none:
  ret i64 %ticket
}

define ptr @worker(ptr %record) nounwind {
entry:
  %limit_at = getelementptr i64, ptr %record, i64 32
  %sleepers_at = getelementptr i64, ptr %record, i64 24
  %count_at = getelementptr i64, ptr %record, i64 48
  %epoch_at = getelementptr i32, ptr %record, i64 1
  %epoch_number = ptrtoint ptr %epoch_at to i64
  %number = atomicrmw add ptr %count_at, i64 1 seq_cst
  %mine = add i64 %number, 1
  %odd = and i64 %mine, 1
  %is_odd = icmp eq i64 %odd, 1
  %step = select i1 %is_odd, i64 65536, i64 1
  br label %again
again:
  %limit = load atomic i64, ptr %limit_at monotonic, align 8
  %wanted = icmp ult i64 %mine, %limit
  br i1 %wanted, label %take, label %skip
take:
  %t = call i64 @take(ptr %record, i64 %step)
  br label %wait
skip:
  %u = load atomic i64, ptr %record seq_cst, align 8
  br label %wait
wait:
  %seen = phi i64 [%t, %take], [%u, %skip]
  %seen_epoch = lshr i64 %seen, 32
  br label %spin
spin:
  %i = phi i64 [0, %wait], [%i1, %still]
  %now = load atomic i64, ptr %record monotonic, align 8
  %now_epoch = lshr i64 %now, 32
  %new = icmp ne i64 %now_epoch, %seen_epoch
  br i1 %new, label %again, label %still
still:
  $pause
  %i1 = add i64 %i, 1
  %long = icmp ugt i64 %i1, $spin
  br i1 %long, label %sleep, label %spin
sleep:
  %s0 = atomicrmw add ptr %sleepers_at, i64 1 seq_cst
  %w = $wait
  %s1 = atomicrmw sub ptr %sleepers_at, i64 1 seq_cst
  br label %again
}

define internal i64 @chunks(ptr %record, ptr %function, ptr %arguments, i64 %chunks) noinline nounwind {
entry:
  %limit_at = getelementptr i64, ptr %record, i64 32
  %busy_at = getelementptr i64, ptr %record, i64 40
  %class_at = getelementptr i64, ptr %record, i64 56
  %function_at = getelementptr i64, ptr %record, i64 16
  %arguments_at = getelementptr i64, ptr %record, i64 17
  %units_at = getelementptr i64, ptr %record, i64 18
  %group_at = getelementptr i64, ptr %record, i64 19
  %chunks_at = getelementptr i64, ptr %record, i64 20
  %refused_at = getelementptr i64, ptr %record, i64 21
  %done_at = getelementptr i64, ptr %record, i64 8
  %sleepers_at = getelementptr i64, ptr %record, i64 24
  %limit = load atomic i64, ptr %limit_at monotonic, align 8
  %one_thread = icmp ult i64 %limit, 2
  %one_chunk = icmp ult i64 %chunks, 2
  %alone = or i1 %one_thread, %one_chunk
  br i1 %alone, label %serial, label %ask
ask:
  %swap = cmpxchg ptr %busy_at, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %launch, label %serial
serial:
  %array_class = load ptr, ptr %class_at, align 8
  br i1 %one_chunk, label %upwards, label %turn
turn:
  %turn_at = getelementptr i64, ptr %record, i64 41
  %turned = load atomic i64, ptr %turn_at monotonic, align 8
  %is_upwards = icmp ne i64 %turned, 0
  %next_turn = zext i1 %is_upwards to i64
  %next_turned = xor i64 %next_turn, 1
  store atomic i64 %next_turned, ptr %turn_at monotonic, align 8
  br i1 %is_upwards, label %upwards, label %downwards
upwards:
  %status = call i64 %function(ptr %arguments, i64 0, i64 %chunks, ptr %array_class)
  ret i64 %status
downwards:
  %sixteenth = lshr i64 %chunks, 4
  %stretch = add i64 %sixteenth, 1
  br label %down
down:
  %end = phi i64 [%chunks, %downwards], [%begin, %down]
  %is_last = icmp ule i64 %end, %stretch
  %before = sub i64 %end, %stretch
  %begin = select i1 %is_last, i64 0, i64 %before
  %down_status = call i64 %function(ptr %arguments, i64 %begin, i64 %end, ptr %array_class)
  br i1 %is_last, label %down_there, label %down
down_there:
  ret i64 %down_status
launch:
  %old = load atomic i64, ptr %record monotonic, align 8
  %epoch = lshr i64 %old, 32
  %writing = add i64 %epoch, 1
  %writing_up = shl i64 %writing, 32
  %closed = or i64 %writing_up, 4294967295
  store atomic i64 %closed, ptr %record seq_cst, align 8
  %groups = udiv i64 %chunks, $most_units
  %group = add i64 %groups, 1
  %rounded = add i64 %chunks, %groups
  %units = udiv i64 %rounded, %group
; release: who sees a part of the new job also sees that the old one is closed
  store atomic ptr %function, ptr %function_at release, align 8
  store atomic ptr %arguments, ptr %arguments_at release, align 8
  store atomic i64 %units, ptr %units_at release, align 8
  store atomic i64 %group, ptr %group_at release, align 8
  store atomic i64 %chunks, ptr %chunks_at release, align 8
  store atomic i64 0, ptr %done_at monotonic, align 8
  store atomic i64 0, ptr %refused_at monotonic, align 8
  %open_epoch = add i64 %epoch, 2
  %open = shl i64 %open_epoch, 32
  store atomic i64 %open, ptr %record seq_cst, align 8
  %sleepers = load atomic i64, ptr %sleepers_at seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %epoch_at = getelementptr i32, ptr %record, i64 1
  %epoch_number = ptrtoint ptr %epoch_at to i64
  %more = sub i64 %units, 1
  %w = $wake
  br label %help
help:
  %t = call i64 @take(ptr %record, i64 1)
  br label %join
join:
  %i = phi i64 [0, %help], [%i1, %patient], [%i1, %rest]
  %done = load atomic i64, ptr %done_at acquire, align 8
  %all = icmp eq i64 %done, %units
  br i1 %all, label %finish, label %pause
pause:
  $pause
  %i1 = add i64 %i, 1
  %impatient = icmp ugt i64 %i1, $patience
  br i1 %impatient, label %rest, label %patient
patient:
  br label %join
rest:
  %y = $give_way
  br label %join
finish:
  %refused = load atomic i64, ptr %refused_at monotonic, align 8
  store atomic i64 0, ptr %busy_at release, align 8
  ret i64 %refused
}

define void @launch(ptr %record, ptr %function, ptr %arguments, i64 %chunks) nounwind {
entry:
  %release_at = getelementptr i64, ptr %record, i64 57
  %acquire_at = getelementptr i64, ptr %record, i64 58
  %raise_at = getelementptr i64, ptr %record, i64 59
  %error_at = getelementptr i64, ptr %record, i64 60
  %words_at = getelementptr i64, ptr %record, i64 61
  %release = load ptr, ptr %release_at, align 8
  %thread = call ptr %release()
  %refused = call i64 @chunks(ptr %record, ptr %function, ptr %arguments, i64 %chunks)
  %acquire = load ptr, ptr %acquire_at, align 8
  call void %acquire(ptr %thread)
  %is_refused = icmp ne i64 %refused, 0
  br i1 %is_refused, label %raise, label %end
raise:
  %raise_error = load ptr, ptr %raise_at, align 8
  %error = load ptr, ptr %error_at, align 8
  %words = load ptr, ptr %words_at, align 8
  call void %raise_error(ptr %error, ptr %words)
  br label %end
end:
  ret void
}

; Run a list of launches without the interpreter between them. The block, in 8-byte words: how many rows and where they are, of
;    binds: the place of an address, which of %arrays (a list of ids) it is in, and how many bytes from its beginning
;    steps: a kernel, its arguments, the number of chunks; or 0, where flags are, how many: the list stops behind them where the first or the
;           last of them is not 0
; and then the step to begin with, and whether the list is so short that the interpreter is kept meanwhile. The result is the step behind those flags, or 0 at the end of the list.
define i64 @replay(ptr %record, ptr %block, ptr %arrays) nounwind {
entry:
  %class_at = getelementptr i64, ptr %record, i64 56
  %release_at = getelementptr i64, ptr %record, i64 57
  %acquire_at = getelementptr i64, ptr %record, i64 58
  %raise_at = getelementptr i64, ptr %record, i64 59
  %error_at = getelementptr i64, ptr %record, i64 60
  %words_at = getelementptr i64, ptr %record, i64 61
  %binds_at = getelementptr i64, ptr %block, i64 1
  %count_at = getelementptr i64, ptr %block, i64 2
  %steps_at = getelementptr i64, ptr %block, i64 3
  %start_at = getelementptr i64, ptr %block, i64 4
  %short_at = getelementptr i64, ptr %block, i64 5
  %array_class = load ptr, ptr %class_at, align 8
  %bound = load i64, ptr %block, align 8
  %binds = load ptr, ptr %binds_at, align 8
  %count = load i64, ptr %count_at, align 8
  %steps = load ptr, ptr %steps_at, align 8
  %start = load i64, ptr %start_at, align 8
  %short = load i64, ptr %short_at, align 8
  %is_long = icmp eq i64 %short, 0
  br label %bind
bind:
  %i = phi i64 [0, %entry], [%i1, %set]
  %unbound = icmp ult i64 %i, %bound
  br i1 %unbound, label %look, label %release
look:
  %row = mul i64 %i, 3
  %row1 = add i64 %row, 1
  %row2 = add i64 %row, 2
  %place_at = getelementptr i64, ptr %binds, i64 %row
  %which_at = getelementptr i64, ptr %binds, i64 %row1
  %offset_at = getelementptr i64, ptr %binds, i64 %row2
  %place = load ptr, ptr %place_at, align 8
  %which = load i64, ptr %which_at, align 8
  %offset = load i64, ptr %offset_at, align 8
  %header_at = getelementptr i64, ptr %arrays, i64 %which
  %header = load ptr, ptr %header_at, align 1
  %found_at = getelementptr i8, ptr %header, i64 $class
  %found = load ptr, ptr %found_at, align 8
  %is_array = icmp eq ptr %found, %array_class
  br i1 %is_array, label %set, label %raise
set:
  %data_at = getelementptr i8, ptr %header, i64 $data
  %data = load ptr, ptr %data_at, align 8
  %moved = getelementptr i8, ptr %data, i64 %offset
  store ptr %moved, ptr %place, align 8
  %i1 = add i64 %i, 1
  br label %bind
release:
  br i1 %is_long, label %give_thread, label %begin
give_thread:
  %release_thread = load ptr, ptr %release_at, align 8
  %given_thread = call ptr %release_thread()
  br label %begin
begin:
  %thread = phi ptr [null, %release], [%given_thread, %give_thread]
  br label %next
next:
  %j = phi i64 [%start, %begin], [%j1, %launch], [%j1, %look_at]
  %any = phi i64 [0, %begin], [%any1, %launch], [%any, %look_at]
  %j1 = add i64 %j, 1
  %more = icmp ult i64 %j, %count
  br i1 %more, label %run, label %acquire
run:
  %step = mul i64 %j, 3
  %step1 = add i64 %step, 1
  %step2 = add i64 %step, 2
  %function_at = getelementptr i64, ptr %steps, i64 %step
  %arguments_at = getelementptr i64, ptr %steps, i64 %step1
  %chunks_at = getelementptr i64, ptr %steps, i64 %step2
  %function = load ptr, ptr %function_at, align 8
  %arguments = load ptr, ptr %arguments_at, align 8
  %chunks = load i64, ptr %chunks_at, align 8
  %is_look = icmp eq ptr %function, null
  br i1 %is_look, label %look_at, label %launch
launch:
  %refused = call i64 @chunks(ptr %record, ptr %function, ptr %arguments, i64 %chunks)
  %any1 = or i64 %any, %refused
  br label %next
look_at:
  %behind = sub i64 %chunks, 1
  %last_at = getelementptr i64, ptr %arguments, i64 %behind
  %first_flag = load i64, ptr %arguments, align 8
  %last_flag = load i64, ptr %last_at, align 8
  %flags = or i64 %first_flag, %last_flag
  %is_set = icmp ne i64 %flags, 0
  br i1 %is_set, label %acquire, label %next
acquire:
  %stopped = phi i64 [0, %next], [%j1, %look_at]
  br i1 %is_long, label %take_thread, label %finish
take_thread:
  %acquire_thread = load ptr, ptr %acquire_at, align 8
  call void %acquire_thread(ptr %thread)
  br label %finish
finish:
  %is_refused = icmp ne i64 %any, 0
  br i1 %is_refused, label %raise, label %end
raise:
  %raise_error = load ptr, ptr %raise_at, align 8
  %error = load ptr, ptr %error_at, align 8
  %words = load ptr, ptr %words_at, align 8
  call void %raise_error(ptr %error, ptr %words)
  ret i64 0
end:
  ret i64 %stopped
}
