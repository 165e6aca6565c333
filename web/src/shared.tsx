import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./ui/theme.css";
import { SharedPage } from "./shared/SharedPage";
import { applyTheme } from "./state/app";

applyTheme();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <SharedPage />
    </StrictMode>,
  );
}
