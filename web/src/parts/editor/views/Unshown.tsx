import { Download, FileQuestion } from "lucide-react";
import * as api from "../../../api/cloche";
import { plain } from "../../../state/names";
import { theSandbox } from "../../../state/sandbox";
import { baseOf, nameOf } from "../../../state/tree";
import { Empty } from "../../../ui/states";

/** A file that cannot be shown here, with the reason and a download. */
export function Unshown({ path, why }: { path: string; why: string }) {
  return (
    <Empty
      icon={<FileQuestion size={24} />}
      title={`${nameOf(path)} cannot be shown`}
      action={
        <a
          className="inline-flex h-7.5 items-center gap-1.5 rounded-lg border border-line-strong/70 bg-raised px-3 font-medium hover:bg-hover"
          download={plain(baseOf(path))}
          href={api.fileAddress(theSandbox(), path)}
        >
          <Download size={13} aria-hidden="true" /> Download it
        </a>
      }
    >
      {why}
    </Empty>
  );
}
