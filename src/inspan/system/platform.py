"""What differs between operating systems, chosen once: Linux's own ways, or those that any Unix has.

`INSPAN_PORTABLE=1` chooses the second on Linux too, for tests.
"""

import os
import sys

if sys.platform.startswith("linux") and not os.environ.get("INSPAN_PORTABLE"):
    from .linux import CHILD_SIGNAL as CHILD_SIGNAL
    from .linux import copy_content as copy_content
    from .linux import count_written_bytes as count_written_bytes
    from .linux import create_memory_file as create_memory_file
    from .linux import enlarge_pipe as enlarge_pipe
    from .linux import has_variable as has_variable
    from .linux import list_children as list_children
    from .linux import list_holders as list_holders
    from .linux import list_open_fds as list_open_fds
    from .linux import list_pids as list_pids
    from .linux import list_values as list_values
    from .linux import open_exit_fd as open_exit_fd
    from .linux import open_folder_watch as open_folder_watch
    from .linux import open_pipe as open_pipe
    from .linux import read_boot_id as read_boot_id
    from .linux import read_process_state as read_process_state
    from .linux import reserve_space as reserve_space
else:
    from .portable import CHILD_SIGNAL as CHILD_SIGNAL
    from .portable import copy_content as copy_content
    from .portable import count_written_bytes as count_written_bytes
    from .portable import create_memory_file as create_memory_file
    from .portable import enlarge_pipe as enlarge_pipe
    from .portable import has_variable as has_variable
    from .portable import list_children as list_children
    from .portable import list_holders as list_holders
    from .portable import list_open_fds as list_open_fds
    from .portable import list_pids as list_pids
    from .portable import list_values as list_values
    from .portable import open_exit_fd as open_exit_fd
    from .portable import open_folder_watch as open_folder_watch
    from .portable import open_pipe as open_pipe
    from .portable import read_boot_id as read_boot_id
    from .portable import read_process_state as read_process_state
    from .portable import reserve_space as reserve_space
