"""The formats of sources: a table with one row for each.

A new format is a module with two functions, a row here, and a name with a description in
:mod:`.format_names`. Help, messages and the checks of options follow from these.

``detects(source)`` looks at names, or at the start of one file: ``source.path`` may be a file, a folder or a
URL, and ``source.folder`` is the folder (:class:`.folders.source_folder.SourceFolder`), which reads disks and
URLs alike. The first format that detects a source takes it: put a row before every format that would accept
the same sources, such as ``is_list``, which takes every file on a disk.

``list_samples(source)`` returns a :class:`.listing.Listing` and reads no image. ``find_files`` of
:mod:`.lists.file_list` finds the named images, on a disk or at a URL, sorts them, and returns the rest as
skips. ``Listing(**vars(found.files), ...)`` sets root, keys, sizes and times; ``found.entries`` says which
name each file had. A format of objects adds each to an :class:`.annotated.object_table.ObjectTable`, in
pixels with edges at integers; ``table.listed(rows, sizes, name)`` makes ``objects`` of it, where ``rows``
has the row of each object's image. Labels are numbered from 0 by ``classes``. An object that cannot be used
raises BadObjectError and becomes a :class:`.listing.Skip`; a source without images or objects raises
SourceError. :mod:`.annotated.coco.coco` does all of this for JSON, and :mod:`.annotated.voc` for XML, whose
entities must be refused. Classes are in the order of the source if it declares them, else sorted.

A new option is a field of :class:`.source.Source`, an argument of ``stoker.convert`` and of ``stoker
convert``, and a name in ``options`` of the rows that accept it. Further columns of the index go to
``Listing.columns``. Loaders can hand out a column of numbers or strings. They hand out columns of lists only
if they are named ``label`` or ``object_*``, with one entry for each object; others stay in the index. A
column of labels is renumbered with the classes only if it is ``label`` or ``object_labels``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .annotated.boxes.open_images import is_open_images, list_open_images
from .annotated.coco.coco import is_coco, list_coco
from .annotated.masks.mask_pairs import has_masks, list_pairs
from .annotated.voc import is_voc, list_voc
from .annotated.yolo.yolo import is_yolo, list_yolo
from .archives import is_mds, is_recordio, is_tar, list_mds, list_recordio, list_tar
from .classes.class_folder import is_class_folder, list_class_folder
from .format_names import SourceFormatName
from .listing import Listing
from .lists.file_list import is_list, list_listed_images
from .source import Source
from .tables.table_files import holds_tables
from .tables.tables import list_table


@dataclass(frozen=True)
class SourceFormat:
    """A format of sources."""

    name: SourceFormatName  # Its name, which ``source_format`` and ``--source-format`` take
    # Whether a source has this format, from the names of its files or the start of one
    detects: Callable[[Source], bool]
    list_samples: Callable[[Source], Listing]  # Lists the samples of a source in this format
    # Fields of :class:`Source` that this format accepts; those that do not name a field refuse it
    options: tuple[str, ...] = ()
    reads_instances: bool = False  # Whether the format reads the masks in ``instances`` itself


SOURCE_FORMATS = (
    SourceFormat("table", holds_tables, list_table, options=("fields", "caption_column")),
    SourceFormat("recordio", is_recordio, list_recordio),
    SourceFormat("mds", is_mds, list_mds, options=("fields", "caption_column")),
    SourceFormat("webdataset", is_tar, list_tar, options=("fields", "caption_column")),
    SourceFormat("voc", is_voc, list_voc),
    SourceFormat("open_images", is_open_images, list_open_images, options=("images",), reads_instances=True),
    SourceFormat("coco", is_coco, list_coco, options=("images",)),
    SourceFormat(
        "list",
        is_list,
        list_listed_images,
        options=("images", "path_column", "label_column", "suffix", "caption_column"),
    ),
    SourceFormat("yolo", is_yolo, list_yolo),
    SourceFormat("pairs", has_masks, list_pairs),
    SourceFormat("folder", is_class_folder, list_class_folder, options=("class_depth", "unlabelled")),
)
"""In the order in which detection tries them: a source has the first format that detects it."""
