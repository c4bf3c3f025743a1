"""The formats that are not read, by the endings of their files: what they are, and what to do with them."""

from __future__ import annotations

_SAVE = "save it as JPEG or PNG"
_RAW = (
    "3fr ari arw cr2 cr3 crw dcr dng erf fff gpr iiq k25 kdc mef mos mrw nef nrw orf pef ptx raf raw rw2 rwl sr2 srf "
    "srw x3f"
)
_KINDS = {
    ("camera RAW", "export JPEG or TIFF"): _RAW,
    ("a film", "save a frame as JPEG or PNG"): "3g2 3gp avi flv insv m2ts m4v mkv mov mp4 mpeg mpg mts ogv webm wmv",
    ("a kind of HEIF", "rename it to .heic"): "heics heifs hif",
    ("a kind of PNG or JPEG", "rename it to .png or .jpg"): "apng jps mpo",
    ("JPEG XL", _SAVE): "jxl",
    ("JPEG XR", _SAVE): "hdp jxr wdp",
    ("JPEG 2000", _SAVE): "j2c j2k jp2 jpc jpf jpx",
    ("Photoshop", _SAVE): "psb psd",
    ("a project of a painting program", _SAVE): "afphoto kra ora xcf",
    ("a drawing or document", _SAVE): "ai eps pdf svg svgz",
    ("an icon", _SAVE): "cur icns ico",
    ("Netpbm", _SAVE): "pbm pgm pnm ppm",
    ("Targa", _SAVE): "tga",
    ("a rare format", _SAVE): "dds exr hdr pcx qoi",
}

RAW = frozenset(f".{ending}" for ending in _RAW.split())
# By ending: "JPEG XL, which is not read: save it as JPEG or PNG".
OTHER_FORMATS = {
    f".{ending}": f"{name}, which is not read: {way}"
    for (name, way), endings in _KINDS.items()
    for ending in endings.split()
}
