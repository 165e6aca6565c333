"""The kernel's system calls by name, for the two machines that the jail runs on.

Used by the filter, which must know every call in order to refuse by choice rather than by ignorance.  The tables are
those of Linux 6.18.  A line gives the number of its first call; the others follow one by one.
"""

from __future__ import annotations

# Since Linux 5.1 a new call gets the same number on every machine.
_EVERYWHERE = """
    424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig
    432 fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2
    442 mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret
    448 process_mrelease futex_waitv set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake
    455 futex_wait futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal
    463 setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr
"""

# arch/x86/entry/syscalls/syscall_64.tbl.  The gaps up to 424 are not used.
_X86_64 = """
    0   read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
    15  rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise
    29  shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept
    44  sendto recvfrom sendmsg recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt
    55  getsockopt clone fork vfork execve exit wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv
    71  msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat
    86  link unlink symlink readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo
    100 times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid
    114 setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget
    126 capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod uselib
    135 personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam sched_getparam
    144 sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval
    149 mlock munlock mlockall munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit
    161 chroot sync acct settimeofday mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm
    174 create_module init_module delete_module get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg
    183 afs_syscall tuxcall security gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr
    194 listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity
    204 sched_getaffinity set_thread_area io_setup io_destroy io_getevents io_submit io_cancel get_thread_area
    212 lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages getdents64 set_tid_address
    219 restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime timer_getoverrun timer_delete
    227 clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes
    236 vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify
    245 mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init
    254 inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat
    263 unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list
    274 get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create
    284 eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2
    294 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init fanotify_mark
    302 prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu process_vm_readv
    311 process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom memfd_create
    320 kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
    330 pkey_alloc pkey_free statx io_pgetevents rseq uretprobe uprobe
"""

# include/uapi/asm-generic/unistd.h, with what arm64 asks for: `renameat`, the 64-bit `stat` calls, resource limits.
_AARCH64 = """
    0   io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr
    10  fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie
    19  eventfd2 epoll_create1 epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch
    29  ioctl ioprio_set ioprio_get flock mknodat mkdirat unlinkat symlinkat linkat renameat umount2 mount
    41  pivot_root nfsservctl statfs fstatfs truncate ftruncate fallocate faccessat chdir fchdir chroot fchmod
    53  fchmodat fchownat fchown openat close vhangup pipe2 quotactl getdents64 lseek read write readv writev
    67  pread64 pwrite64 preadv pwritev sendfile pselect6 ppoll signalfd4 vmsplice splice tee readlinkat newfstatat
    80  fstat sync fsync fdatasync sync_file_range timerfd_create timerfd_settime timerfd_gettime utimensat acct
    90  capget capset personality exit exit_group waitid set_tid_address unshare futex set_robust_list
    100 get_robust_list nanosleep getitimer setitimer kexec_load init_module delete_module timer_create
    108 timer_gettime timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres
    115 clock_nanosleep syslog ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam
    122 sched_setaffinity sched_getaffinity sched_yield sched_get_priority_max sched_get_priority_min
    127 sched_rr_get_interval restart_syscall kill tkill tgkill sigaltstack rt_sigsuspend rt_sigaction
    135 rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn setpriority getpriority reboot
    143 setregid setgid setreuid setuid setresuid getresuid setresgid getresgid setfsuid setfsgid times setpgid
    155 getpgid getsid setsid getgroups setgroups uname sethostname setdomainname getrlimit setrlimit getrusage
    166 umask prctl getcpu gettimeofday settimeofday adjtimex getpid getppid getuid geteuid getgid getegid gettid
    179 sysinfo mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgctl msgrcv msgsnd
    190 semget semctl semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen accept connect
    204 getsockname getpeername sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg readahead brk munmap
    216 mremap add_key request_key keyctl clone execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock
    230 mlockall munlockall mincore madvise remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages
    239 move_pages rt_tgsigqueueinfo perf_event_open accept4 recvmmsg
    260 wait4 prlimit64 fanotify_init fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs setns
    269 sendmmsg process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp
    278 getrandom memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2
    288 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load
"""

_TABLES = {"x86_64": _X86_64 + _EVERYWHERE, "aarch64": _AARCH64 + _EVERYWHERE}


def numbers(machine: str) -> dict[str, int]:
    """The number of every call on `machine`, as `uname -m` names it; KeyError for a machine that we do not know."""
    if machine in _numbers:
        return _numbers[machine]
    found: dict[str, int] = {}
    for line in filter(str.strip, _TABLES[machine].splitlines()):
        first, *names = line.split()
        found.update(zip(names, range(int(first), int(first) + len(names)), strict=True))
    _numbers[machine] = found
    return found


_numbers: dict[str, dict[str, int]] = {}
